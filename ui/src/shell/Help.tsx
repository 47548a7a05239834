import { Dialog } from './Dialog';
import { GOES } from './keys';

const KEYS: [string, string][] = [
  ['Ctrl K', 'Search, jump, act'],
  ['j k', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['Space', 'A closer look at the row, in place'],
  ['e', 'Acknowledge'],
  ['a', 'Approve'],
  ['r', 'Reply, or write'],
  ['/', 'Filter'],
  ['[ ]', 'Step through the log, one event at a time'],
  ['P', 'Play the log, or stop'],
  ['L', 'Return to now'],
  ['T', 'Light or dark'],
  ['?', 'This list'],
];

export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label="Keys" onClose={onClose}>
      <h1>Keys</h1>
      <dl className="keys" tabIndex={0}>
        {KEYS.map(([key, does]) => <Row key={key} keys={key} does={does} />)}
        {Object.entries(GOES).map(([key, { name }]) => <Row key={key} keys={`g ${key}`} does={`Go to ${name}`} />)}
      </dl>
    </Dialog>
  );
}

function Row({ keys, does }: { keys: string; does: string }) {
  return (
    <>
      <dt>{keys.split(' ').map((key) => <kbd key={key}>{key}</kbd>)}</dt>
      <dd>{does}</dd>
    </>
  );
}
