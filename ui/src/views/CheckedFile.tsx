// What a workflow file would do, or everything that is wrong with it.

import type { Wire } from '../api/client';
import { Glyph } from '../parts/Glyph';
import { number, object, type Payload, text, texts } from '../store/event';

export function CheckedFile({ checked }: { checked: Wire['TeamFileCheck'] }) {
  return (
    <section className="note-box" role="status" aria-label={checked.ok ? 'What it would do' : 'What is wrong'}>
      {checked.ok ? <Plan plan={asObject(checked.plan)} /> : <Faults faults={asObject(checked.faults)} reason={checked.reason ?? ''} />}
    </section>
  );
}

/** The command line tells it, so nothing in it is taken for granted. */
function asObject(value: unknown): Payload {
  return value !== null && typeof value === 'object' ? (value as Payload) : {};
}

function rows(payload: Payload, field: string): Payload[] {
  const value = payload[field];
  return Array.isArray(value) ? value.map(asObject) : [];
}

function Plan({ plan }: { plan: Payload }) {
  const agents = rows(plan, 'agents');
  const woken = texts(plan, 'woken_first');
  const hindrances = texts(plan, 'hindrances');
  return (
    <>
      <h2 className="title"><Glyph shape="done" />{text(plan, 'workflow')} can be started</h2>
      <dl className="facts">
        <dt>Agents</dt><dd>{agents.map((agent) => <div key={text(agent, 'name')}><b>{text(agent, 'name')}</b> by {text(agent, 'backend')}{text(agent, 'model') && `, ${text(agent, 'model')}`}{object(agent, 'sandbox')['on'] === false && ', without a sandbox'}</div>)}</dd>
        {woken.length > 0 && <><dt>Begins</dt><dd>{woken.join(', ')}</dd></>}
        {text(plan, 'kickoff') && <><dt>Is told</dt><dd className="text">{text(plan, 'kickoff')?.trim()}</dd></>}
        {hindrances.length > 0 && <><dt>But</dt><dd>{hindrances.map((line) => <div key={line}>{line}</div>)}</dd></>}
      </dl>
    </>
  );
}

function Faults({ faults, reason }: { faults: Payload; reason: string }) {
  const found = rows(faults, 'faults');
  return (
    <>
      <h2 className="title"><Glyph shape="failed" />{reason || 'It cannot be started'}</h2>
      <ul className="faults">
        {found.map((fault) => (
          <li key={`${number(fault, 'line')} ${number(fault, 'column')} ${text(fault, 'message')}`}>
            <span className="mono quiet">{text(fault, 'file')}:{number(fault, 'line')}:{number(fault, 'column')}</span> <b>{text(fault, 'path')}</b> {text(fault, 'message')}{text(fault, 'found') && `, not ${text(fault, 'found')}`}
            {text(fault, 'hint') && <div className="quiet">{text(fault, 'hint')}</div>}
          </li>
        ))}
      </ul>
    </>
  );
}
