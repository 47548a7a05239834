import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './shell/App';
import { applyTheme } from './shell/theme';
import { start } from './store/store';
import './styles.css';

applyTheme();
start();
const root = document.getElementById('app');
if (root) createRoot(root).render(<StrictMode><App /></StrictMode>);
