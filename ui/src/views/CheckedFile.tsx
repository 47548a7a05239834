// What a workflow file would do, or everything that is wrong with it.

import type { Wire } from '../api/client';
import { Glyph } from '../parts/Glyph';
import { number, object, type Payload, text, texts } from '../store/event';
import { asObject, blockersOf, rows, warningsOf } from '../store/teamFile';

export function CheckedFile({ checked }: { checked: Wire['TeamFileCheck'] }) {
  return (
    <section className="note-box" role="status" aria-label={canStart(checked) ? 'What it would do' : 'What is wrong'}>
      {checked.ok ? <Plan plan={asObject(checked.plan)} /> : <Faults faults={asObject(checked.faults)} reason={checked.reason ?? ''} />}
    </section>
  );
}

/** Whether the file is sound and nothing that it needs is missing. */
export function canStart(checked: Wire['TeamFileCheck'] | undefined): boolean {
  return checked?.ok === true && blockersOf(asObject(checked.plan)).length === 0;
}

function Plan({ plan }: { plan: Payload }) {
  const agents = rows(plan, 'agents');
  const woken = texts(plan, 'woken_first');
  const blockers = blockersOf(plan);
  const warnings = warningsOf(plan);
  return (
    <>
      <h2 className="title"><Glyph shape={blockers.length > 0 ? 'failed' : 'done'} />{text(plan, 'workflow')} {blockers.length > 0 ? 'cannot be started' : 'can be started'}</h2>
      {blockers.length > 0 && <ul className="faults">{blockers.map((line) => <li key={line}>{line}</li>)}</ul>}
      <dl className="facts">
        <dt>Agents</dt><dd>{agents.map((agent) => <div key={text(agent, 'name')}><b>{text(agent, 'name')}</b> by {text(agent, 'backend')}{text(agent, 'model') && `, ${text(agent, 'model')}`}{object(agent, 'sandbox')['on'] === false && ', without a sandbox'}</div>)}</dd>
        {woken.length > 0 && <><dt>Begins</dt><dd>{woken.join(', ')}</dd></>}
        {text(plan, 'kickoff') && <><dt>Is told</dt><dd className="text">{text(plan, 'kickoff')?.trim()}</dd></>}
        {warnings.length > 0 && <><dt>Note</dt><dd>{warnings.map((line) => <div key={line}>{line}</div>)}</dd></>}
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
