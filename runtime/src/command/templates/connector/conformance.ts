/** What the suite needs to try this connector: a source that it may fill, change, break and look into. */
import { randomUUID } from 'node:crypto'
import type { SourceFixture, SourceTable } from '@sluice/conformance'
import type { TableSchema } from '@sluice/sdk'
import { sourceNamed } from './source.ts'

const OWN: SourceTable = {
  name: 'made_by_its_owner',
  columns: [{ name: 'id', type: 'integer', nullable: false }],
  primaryKey: ['id'],
}

export async function start(): Promise<SourceFixture> {
  const settings = { source: randomUUID() }
  const source = sourceNamed(settings.source)
  source.create(OWN.name, shapeOf(OWN))
  source.put(OWN.name, [[1], [2]])
  return {
    settings,
    schema: 'main',
    // What check goes through, and settings that fail there. A source on a host has dns, tcp and perhaps more.
    steps: ['privileges'],
    broken: { privileges: { source: randomUUID() } },
    // A table that the source itself has made, and what is read from it.
    expected: [{ table: OWN, rows: [[1], [2]] }],
    create: async (table) => {
      if (!table.hidden) source.create(table.name, shapeOf(table))
    },
    put: async (table, rows) => {
      if (!table.hidden) source.put(table.name, rows)
    },
    remove: async (table, rows) => source.remove(table.name, rows),
    alter: async (table, next) => source.alter(table.name, shapeOf(next)),
    drop: async (table) => source.drop(table.name),
    // Another text whenever anything at the source is another, by whomever.
    digest: async () => String(source.change),
    // Connections that are open at the source.
    sessions: async () => 0,
    stop: async () => {},
  }
}

function shapeOf({ columns, primaryKey }: SourceTable): TableSchema {
  return { columns, primaryKey }
}
