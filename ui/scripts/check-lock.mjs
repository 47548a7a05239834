// Every optional dependency of a locked package must itself be in the lock file. npm leaves out, without a word, platforms
// whose package is missing from the registry, and `npm ci` then fails on other machines than the one that wrote the lock.
import { readFileSync } from 'node:fs';

const file = new URL('../package-lock.json', import.meta.url);
const { packages } = JSON.parse(readFileSync(file, 'utf8'));
const names = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf('node_modules/') + 13)));

const missing = Object.entries(packages).flatMap(([path, entry]) =>
  Object.keys(entry.optionalDependencies ?? {})
    .filter((name) => !names.has(name))
    .map((name) => `${path} wants ${name}`),
);
const loose = Object.entries({ ...packages[''].dependencies, ...packages[''].devDependencies })
  .filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))
  .map(([name, version]) => `${name} is not pinned exactly: ${version}`);

const faults = [...missing, ...loose];
if (faults.length > 0) {
  console.error(`package-lock.json cannot be installed everywhere:\n  ${faults.join('\n  ')}`);
  process.exit(1);
}
console.log(`${Object.keys(packages).length - 1} packages locked, every platform included`);
