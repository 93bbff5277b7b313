"""200,000 bank accounts synced every 8 hours, with a bank that is down for a day: what each strategy does with it."""
