-- Runs by when they ended, because keys of theirs are remembered until then and a day more. Derived rows are folded anew
-- with this version.

ALTER TABLE runs ADD COLUMN ended bigint;
