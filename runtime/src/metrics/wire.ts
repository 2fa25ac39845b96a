/** Clients of PostgreSQL: who is connected, who is let in, and how statements end. */
import { Counter, Gauge, type Registry } from 'prom-client'

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
  return {
    connected: (by: 1 | -1): void => connections.inc(by),
    login: (outcome: 'let_in' | 'refused'): void => logins.inc({ outcome }),
    statement: (outcome: 'answered' | 'refused' | 'failed'): void => statements.inc({ outcome }),
  }
}
