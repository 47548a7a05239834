// Every view of the page, as addresses for the scene of `team.ts`.

import type { Team } from './team';

export function views({ tasks, handoff, artifacts }: Team): Record<string, string> {
  return {
    channel: 'c/default',
    attention: 'attention',
    stream: 'stream',
    'stream-filtered': 'stream?kind=task.&agent=backend-2',
    agents: 'agents/backend-2',
    tasks: 'tasks',
    'tasks-list': 'tasks?view=list',
    task: `tasks/${tasks['refresh']}`,
    runs: 'runs',
    run: `runs/run_default?task=${tasks['refresh']}`,
    'run-folded': 'runs/run_default?fold=done',
    'run-files': 'runs/run_default?tab=files',
    files: 'files/src/auth/token.rs',
    handoffs: `handoffs/${handoff}`,
    documents: 'documents/default/decisions.md',
    'documents-difference': 'documents/default/decisions.md?version=2',
    artifacts: `artifacts/${artifacts.patch}`,
    'artifacts-page': `artifacts/${artifacts.page}`,
    event: 'event/5',
    past: 'tasks?at=20',
    start: 'start',
    setup: 'setup',
    sessions: 'sessions',
  };
}
