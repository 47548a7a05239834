// Light or dark: what the system wants, unless the person chose otherwise on this machine.

const KEY = 'rookery.theme';
const system = matchMedia('(prefers-color-scheme: dark)');

export function applyTheme(): void {
  const chosen = localStorage.getItem(KEY);
  document.documentElement.dataset['theme'] = chosen ?? (system.matches ? 'dark' : 'light');
}

export function toggleTheme(): void {
  const next = document.documentElement.dataset['theme'] === 'dark' ? 'light' : 'dark';
  localStorage.setItem(KEY, next);
  applyTheme();
}

system.addEventListener('change', applyTheme);
