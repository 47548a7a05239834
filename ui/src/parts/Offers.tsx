// What a person can do, as buttons.

import type { Offer } from '../store/offers';
import { AskWhy } from './AskWhy';
import { ChooseAgent } from './Choose';

export function Offers({ offers, disabled }: { offers: readonly Offer[]; disabled: boolean }) {
  return offers.map((offer) => <One key={offer.label} offer={offer} disabled={disabled} />);
}

function One({ offer, disabled }: { offer: Offer; disabled: boolean }) {
  const { label } = offer;
  switch (offer.is) {
    case 'do': return <button type="button" className={offer.main ? 'button main-action' : 'button'} disabled={disabled} onClick={offer.run}>{label}{offer.key && <kbd>{offer.key}</kbd>}</button>;
    case 'choose': return <ChooseAgent label={label} disabled={disabled} except={offer.except} onChoose={offer.run} />;
    case 'why': return <AskWhy label={label} ask={offer.ask} disabled={disabled} must={offer.must ?? false} onDo={offer.run} />;
    case 'go': return <a className={offer.main ? 'button main-action' : 'button'} href={offer.to}>{label}</a>;
  }
}
