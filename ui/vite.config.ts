import { defineConfig } from 'vitest/config';
import { compressed } from './scripts/compressed.ts';
import { licenses } from './scripts/licenses.ts';

// The daemon that `npm run dev` talks to.
const daemon = process.env.ROOKERY_URL ?? 'http://127.0.0.1:4700';

// Everything that is not the UI belongs to the daemon, so that the page in development sees one origin as in production.
const passedOn = [
  '/agents', '/channels', '/clutch', '/contexts', '/events', '/handoffs', '/admin', '/resources', '/session', '/state',
  '/status', '/tasks', '/teams', '/team-files', '/turns', '/metrics', '/openapi.json', '/healthz', '/readyz', '/docs', '/style.css',
];

export default defineConfig({
  base: '/ui/',
  build: {
    // One level below the folder whose .gitignore is committed: Vite empties what it writes to.
    outDir: '../crates/ui-embed/dist/app',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  plugins: [licenses(), compressed()],
  server: {
    // The daemon answers to its own origin only.
    proxy: Object.fromEntries(
      passedOn.map((path) => [path, { target: daemon, changeOrigin: true, ws: path === '/clutch', headers: { origin: daemon } }]),
    ),
  },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
});
