import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: 'e2e',
  outputDir: 'test-results',
  // Two cores are what CI has; each test has a daemon of its own.
  workers: 2,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  // Speed is measured alone, by `cargo xtask trials browser`; the tests run the views only.
  projects: [
    { name: 'views', testIgnore: /speed\.spec/ },
    { name: 'speed', testMatch: /speed\.spec/ },
  ],
  use: {
    viewport: { width: 1440, height: 900 },
    // A page that comes from a folder (UI_DIST) counts as not local, and would not be let to the daemon.
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--font-render-hinting=none', '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests'] },
    trace: 'off',
  },
});
