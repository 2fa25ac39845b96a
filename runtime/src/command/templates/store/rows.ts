import {
  type ChangeSet,
  type ColumnBatch,
  type Row,
  rowsOf,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'

export interface ChangedRows {
  readonly rows: ReadonlyMap<string, Row>
  readonly upserted: number
  readonly deleted: number
}

/** The rows after the change set; those that were there stay as they are, since readers may hold them. */
export async function changed(
  former: ReadonlyMap<string, Row>,
  changes: ChangeSet,
  signal: AbortSignal,
): Promise<ChangedRows> {
  const rows = new Map(changes.mode === 'full' ? [] : former)
  const { primaryKey } = changes.schema
  let deleted = 0
  for await (const key of rowsIn(changes.deletes(), signal)) {
    rows.delete(keyText(key))
    deleted += 1
  }
  let upserted = 0
  for await (const row of rowsIn(changes.upserts(), signal)) {
    // Rows without identity are plainly added.
    const key = primaryKey.length > 0 ? keyText(keyOf(changes.schema, row)) : `row ${rows.size}`
    rows.set(key, row)
    upserted += 1
  }
  // A source that ended early must not make an epoch.
  if (upserted !== changes.upsertCount || deleted !== changes.deleteCount) throw truncated()
  return { rows, upserted, deleted }
}

async function* rowsIn(batches: AsyncIterable<ColumnBatch>, signal: AbortSignal): AsyncGenerator<Row> {
  for await (const batch of batches) {
    if (signal.aborted) throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
    yield* rowsOf(batch)
  }
}

function keyOf({ columns, primaryKey }: TableSchema, row: Row): Row {
  const key = primaryKey.map((name) => row[columns.findIndex((column) => column.name === name)] ?? null)
  if (!key.includes(null)) return key
  throw new SluiceError('INVALID_DATA', 'a row has no value in a column of its key', {
    code: 'missing_key',
    remedy: 'Filter such rows out, or choose another key.',
  })
}

/** JSON keeps the parts apart, whatever they hold. */
function keyText(key: Row): string {
  return JSON.stringify(key.map(partText))
}

function partText(value: Value): readonly [string, string] {
  return [typeof value, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)]
}

function truncated(): SluiceError {
  return new SluiceError('TRANSIENT', 'the change set does not hold as many rows as it announced', {
    code: 'truncated_change_set',
    remedy: 'Send it again.',
  })
}
