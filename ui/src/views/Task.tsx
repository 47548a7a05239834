// One task: how it stands, what it waits for, why it went where it went, and what can be done about it.

import { Head, type WithMenu } from '../parts/Head';
import { Offers } from '../parts/Offers';
import { TaskState } from '../parts/State';
import { at } from '../router';
import { useDeeds } from '../shell/keys';
import { useMayAct, useWorld } from '../store/hooks';
import { ofTask } from '../store/offers';
import { TaskBody } from './TaskBody';

export default function TaskView({ id, onMenu }: { id: string } & WithMenu) {
  const world = useWorld();
  const mayAct = useMayAct();
  const task = world.tasks.get(id);
  const offers = task ? ofTask(task, world) : [];
  useDeeds((deed) => {
    const offer = deed === 'approve' && mayAct ? offers.find((one) => one.is === 'do' && one.key === 'A') : undefined;
    if (offer?.is === 'do') offer.run();
    return offer !== undefined;
  });
  if (!task) return <><Head title="Task" onMenu={onMenu} /><div /><p className="empty">There is no task <code>{id}</code>{' '}here.</p><div /></>;
  return (
    <>
      <Head title={task.title} note={<span className="mono">{task.id}</span>} onMenu={onMenu}><span className="push"><TaskState task={task} /></span></Head>
      <div className="bar">
        <Offers offers={offers} disabled={!mayAct} />
        <a className="button push" href={`${at('stream')}?task=${encodeURIComponent(task.id)}`}>Events</a>
        <a className="button" href={`${at('runs', task.run)}?task=${encodeURIComponent(task.id)}`}>In its run</a>
      </div>
      <div className="scroll page"><TaskBody task={task} /></div>
      <div />
    </>
  );
}
