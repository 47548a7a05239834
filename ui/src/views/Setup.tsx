// How to connect the first agent: three steps that tick themselves off as events come.

import { useState } from 'react';
import { Glyph } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { at } from '../router';
import { useWorld } from '../store/hooks';
import { useStore } from '../store/store';

interface Way { name: string; words: string; text: (origin: string) => string }

const WAYS: Way[] = [
  { name: 'Claude Code', words: 'Run this in the project:', text: () => 'claude mcp add rookery -- rookery mcp --tools team --agent claude-1' },
  { name: 'Codex', words: 'Add this to ~/.codex/config.toml:', text: () => '[mcp_servers.rookery]\ncommand = "rookery"\nargs = ["mcp", "--tools", "team", "--agent", "codex-1"]' },
  { name: 'Cursor', words: 'Add this to .cursor/mcp.json:', text: () => '{\n  "mcpServers": {\n    "rookery": { "command": "rookery", "args": ["mcp", "--tools", "team", "--agent", "cursor-1"] }\n  }\n}' },
  { name: 'HTTP', words: 'Announce an agent from a script:', text: (origin) => `curl -s -H 'Content-Type: application/json' ${origin}/agents/announce \\\n  -d '{"id":"script-1","tool":"shell"}'` },
];

export function SetupView({ onMenu }: WithMenu) {
  const { agents } = useWorld();
  const talk = useStore((state) => state.talk);
  const [way, setWay] = useState(0);
  const chosen = WAYS[way] ?? WAYS[0];
  const first = [...agents.values()][0];
  const said = [...talk.values()].some((entries) => entries.some((entry) => !entry.from.startsWith('person:') && entry.from !== 'system'));
  return (
    <>
      <Head title="Connect an agent" onMenu={onMenu} note={`${agents.size === 0 && !said ? 'Nothing has happened yet. ' : ''}The daemon is running on ${location.host}.`} />
      <div className="bar" />
      <div className="scroll page">
        <ol className="steps">
          <Step number={1} done={agents.size > 0} title="Connect an agent">
            <div className="deeds" role="group" aria-label="Which program">
              {WAYS.map(({ name }, index) => (
                <button key={name} type="button" className="chip" aria-pressed={index === way} onClick={() => setWay(index)}>{name}</button>
              ))}
            </div>
            <p>{chosen?.words}</p>
            <Copied text={chosen?.text(location.origin) ?? ''} />
          </Step>
          <Step number={2} done={first !== undefined} title={first ? `${first.id} is here` : 'Waiting for its first sign of life …'}>
            <p className="quiet">{first ? `It joined as ${first.role}, by ${first.tool}.` : 'This turns into a tick by itself.'}</p>
          </Step>
          <Step number={3} done={said} title="Say hello">
            <p className="quiet">{said ? 'An agent has written.' : 'This turns into a tick when an agent has written something.'}</p>
            <p>In <a className="at" href={at('c', 'default')}>#general</a>: <code>@{first?.id ?? 'agent-name'} introduce yourself</code></p>
          </Step>
        </ol>
        <p className="empty">Or look around first: <code>rookery demo</code> makes a sample project with a team of scripted agents, and prints where to watch it.</p>
        <p className="empty">Tell agents how the team works: <code>rookery instructions --into CLAUDE.md</code> (or AGENTS.md).</p>
      </div>
      <div />
    </>
  );
}

function Step({ number, done, title, children }: { number: number; done: boolean; title: string; children: React.ReactNode }) {
  return (
    <li>
      {done ? <Glyph shape="done" label="done" /> : <span className="mark">{number}</span>}
      <div><b>{title}</b>{children}</div>
    </li>
  );
}

function Copied({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <div className="copy">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" className="button" onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>{copied ? 'Copied' : 'Copy'}</button>
    </div>
  );
}
