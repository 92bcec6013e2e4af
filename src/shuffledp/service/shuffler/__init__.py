"""The shuffler: collects sealed reports, mixes whole batches, delivers them, forgets."""
