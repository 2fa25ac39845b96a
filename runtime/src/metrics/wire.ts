/** Clients of PostgreSQL: who is connected, who is let in, and how statements end. */
import { Counter, Gauge, type Registry } from 'prom-client'

const LOGINS = ['let_in', 'refused'] as const
const STATEMENTS = ['answered', 'refused', 'failed'] as const

export function wireMetrics(registry: Registry) {
  const registers = [registry]
  const connections = new Gauge({
    name: 'sluice_wire_connections',
    help: 'Connections of clients of PostgreSQL, logged in or not.',
    registers,
  })
  const logins = new Counter({
    name: 'sluice_wire_logins_total',
    help: 'Logins of clients of PostgreSQL, by outcome: let_in, refused.',
    labelNames: ['outcome'],
    registers,
  })
  const statements = new Counter({
    name: 'sluice_wire_statements_total',
    help: 'Statements of clients of PostgreSQL, by outcome: answered, refused, failed.',
    labelNames: ['outcome'],
    registers,
  })
  // From the start: a rate knows no first step of what was not there before.
  for (const outcome of LOGINS) logins.inc({ outcome }, 0)
  for (const outcome of STATEMENTS) statements.inc({ outcome }, 0)
  return {
    connected: (by: 1 | -1): void => connections.inc(by),
    login: (outcome: (typeof LOGINS)[number]): void => logins.inc({ outcome }),
    statement: (outcome: (typeof STATEMENTS)[number]): void => statements.inc({ outcome }),
  }
}
