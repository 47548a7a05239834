// The build carries other people's code: their licences go with it, as one text file.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

export function licenses(): Plugin {
  return {
    name: 'licenses',
    apply: 'build',
    generateBundle(_options, bundle) {
      const folders = new Set<string>();
      for (const output of Object.values(bundle)) {
        if (output.type !== 'chunk') continue;
        for (const id of Object.keys(output.modules)) {
          const folder = packageOf(id);
          if (folder) folders.add(folder);
        }
      }
      const texts = [...folders].map(described).sort();
      const text = `The web UI of Rookery contains these packages.\n\n${texts.join('\n')}`;
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: text });
    },
  };
}

/** The folder of the package that a module belongs to, if it is not our own. */
function packageOf(id: string): string | undefined {
  const file = id.replace(/^\0+/, '').split('?')[0] ?? '';
  if (!file.includes('/node_modules/')) return undefined;
  let folder = dirname(file);
  while (!isPackage(folder)) {
    if (folder === dirname(folder)) return undefined;
    folder = dirname(folder);
  }
  return folder;
}

function isPackage(folder: string): boolean {
  const manifest = join(folder, 'package.json');
  return existsSync(manifest) && typeof JSON.parse(readFileSync(manifest, 'utf8')).version === 'string';
}

function described(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(folder, file), 'utf8').trim() : '';
  return `${name} ${version} (${license})\n${text}\n`;
}
