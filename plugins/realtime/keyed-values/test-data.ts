/** Rows of tests as change sets give them to stores of values by key. */
import {
  type Column,
  type KeyTemplate,
  keyedLine,
  type ReadPlan,
  type Row,
  renderKey,
  type TableSchema,
} from '@sluice/sdk'
import { rowJson } from './cells.ts'

const CHUNK_LENGTH = 65_536

export async function* keyedTexts(
  schema: TableSchema,
  rows: Iterable<Row>,
  template: KeyTemplate,
  columns: readonly string[],
): AsyncGenerator<Uint8Array> {
  const indexes = columns.map((name) => schema.columns.findIndex((column) => column.name === name))
  const layout = indexes.map((index) => schema.columns[index] as Column)
  let lines = ''
  for (const row of rows) {
    const cell = (name: string) => row[schema.columns.findIndex((column) => column.name === name)] ?? null
    const json = rowJson(
      layout,
      indexes.map((index) => row[index] ?? null),
    )
    lines += keyedLine(renderKey(template, schema, cell), json)
    if (lines.length < CHUNK_LENGTH) continue
    yield Buffer.from(lines)
    lines = ''
  }
  if (lines !== '') yield Buffer.from(lines)
}

/** The read of what is under a key, by somebody to whom all is shown. */
export function keyPlan(key: string, columns: readonly string[], parts: Partial<ReadPlan> = {}): ReadPlan {
  return {
    operation: 'key',
    key,
    columns,
    filters: [],
    orderBy: [],
    limit: 1,
    policy: { version: '1', rows: { op: 'all' }, claims: {}, visibleColumns: columns, maskedColumns: [] },
    timeoutMs: 1000,
    signal: AbortSignal.timeout(60_000),
    encoding: 'json',
    ...parts,
  }
}
