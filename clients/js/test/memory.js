/** A store for tests, in memory, with faults to order. */

import { LedgerError } from "../src/device/refusal.js";

export class MemoryStore {
  constructor(held = null) {
    this.held = held;
    this.writes = 0;
  }

  async exists() {
    return this.held !== null;
  }

  async create(held) {
    if (this.held !== null) throw new LedgerError("OCCUPIED");
    this.held = held;
  }

  async read() {
    if (this.held === null) throw new LedgerError("MISSING");
    return this.held;
  }

  async update(body) {
    const next = body(await this.read());
    if (next === null) return;
    this.held = { ledger: next.ledger, witness: next.witness };
    this.writes += 1;
  }
}
