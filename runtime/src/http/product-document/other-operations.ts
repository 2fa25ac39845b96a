/** Changed rows of one product, queries over it, and what the stores of its endpoints declare. */
import { type Column, typeName } from '@sluice/sdk'
import { Type } from 'typebox'
import type { ShownColumn } from '../../operations/products/readings.ts'
import type { Route } from '../route.ts'
import { type About, answerExample, answering, type NarrowedOperation, narrowed, rowsOf } from './narrowed-operation.ts'
import { exampleRow, exampleValue, rowSchema } from './row-schemas.ts'

const EPOCH = Type.Unsafe({
  type: 'object',
  description: 'What came since the last one is whole.',
  required: ['epoch', 'version'],
  properties: { epoch: { type: 'integer' }, version: { type: 'string' }, committed_at: { type: 'string' } },
})

const RESET = Type.Unsafe({
  type: 'object',
  description: 'All rows are to be forgotten: they follow anew.',
  required: ['reason'],
  properties: { reason: { enum: ['changed', 'expired'] } },
})

export function changesOperation(route: Route, about: About): NarrowedOperation | null {
  const { row, changes: key } = about.readings
  const { words } = about.described
  if (key === null) return null
  const epoch = { epoch: 2, version: words.version, committed_at: '2026-03-02T08:15:03.000Z' }
  const events = [
    `id: AcmWcjNn…\nevent: upsert\ndata: ${JSON.stringify(exampleRow(row))}\n\n`,
    `id: AcmWcjNo…\nevent: delete\ndata: ${JSON.stringify(exampleRow(key))}\n\n`,
    `id: AcmWcjNp…\nevent: epoch\ndata: ${JSON.stringify(epoch)}\n\n`,
  ]
  return {
    route: narrowed(route, about, {}),
    example: { query: { from: 'start' }, also: { 'text/event-stream': events.join('') } },
    events: { upsert: rowSchema('Row', row, words), delete: rowSchema('Key', key, words), epoch: EPOCH, reset: RESET },
  }
}

const MOST_IN_SELECT = 5
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** What comes hangs on the statement; an example of one stands in for the rest. */
export function queryOperation(route: Route, about: About): NarrowedOperation {
  const { schema } = about.described
  const shown = about.readings.row.slice(0, MOST_IN_SELECT)
  const names = shown.map(({ name }) => quoted(name)).join(', ') || '*'
  const example = {
    columns: shown.map(({ name, type, mask }) => ({ name, type, masked: mask !== null })),
    rows: [shown.map(exampleValue)],
    row_count: 1,
    truncated: false,
    meta: {
      engine: 'duckdb',
      elapsed_ms: 21,
      snapshots: { [about.full]: '7533507713999006' },
      epochs: { [about.full]: 1 },
      consistent: true,
      freshness: { [about.full]: { read_at: '2026-03-02T08:14:58.000Z', age_s: 6 } },
    },
  }
  return {
    route,
    example: {
      body: { sql: `SELECT ${names} FROM ${quoted(schema.namespace)}.${quoted(schema.name)} LIMIT 1` },
      answers: { 200: example },
      also: { 'application/x-ndjson': `${JSON.stringify(exampleRow(shown))}\n` },
    },
  }
}

/** @param adds columns that the operation adds to each row */
export function declaredOperation(route: Route, about: About, adds: readonly Column[]): NarrowedOperation {
  const shown = [...about.readings.row, ...adds.map(addedColumn)]
  const { schema } = rowsOf(`${route.name.charAt(0).toUpperCase()}${route.name.slice(1)}Row`, shown, about)
  return {
    route: answering(narrowed(route, about, {}), schema),
    example: { ...route.example, params: {}, answers: answerExample(shown, about, 'store') },
  }
}

const addedColumn = ({ name, type, nullable }: Column): ShownColumn => {
  return {
    name,
    type: typeof type === 'string' ? type : typeName(type),
    nulls: nullable ? 'some' : 'none',
    mask: null,
    of: null,
  }
}
