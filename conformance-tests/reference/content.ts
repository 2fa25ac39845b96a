/** What a change set makes of a dataset's content: a pure function, so that nothing is half done. */

import { isDeepStrictEqual } from 'node:util'
import { type ChangeSet, type Commit, type Row, rowsOf, SluiceError, type TableSchema, type Value } from '@sluice/sdk'
import type { ReferenceConfig } from './config.ts'
import type { Content, RowVersion } from './memory.ts'

/** The change set, read to its end. */
export interface StagedChanges {
  readonly mode: 'full' | 'delta'
  readonly upserts: readonly Row[]
  readonly deletedKeys: readonly string[]
}

/** Reads the change set; throws CONFLICT `truncated_change_set` where it holds other than it announced. */
export async function stage(changes: ChangeSet, signal: AbortSignal): Promise<StagedChanges> {
  const upserts: Row[] = []
  const deletedKeys: string[] = []
  stopIfAborted(signal)
  for await (const batch of changes.upserts()) {
    stopIfAborted(signal)
    upserts.push(...rowsOf(batch))
  }
  for await (const batch of changes.deletes()) {
    stopIfAborted(signal)
    for (const key of rowsOf(batch)) deletedKeys.push(keyText(key))
  }
  if (upserts.length !== changes.upsertCount || deletedKeys.length !== changes.deleteCount) {
    throw new SluiceError('CONFLICT', 'the change set does not hold as many rows as it announced', {
      code: 'truncated_change_set',
    })
  }
  return { mode: changes.mode, upserts, deletedKeys }
}

/** Throws INVALID_DATA `missing_key` for a row with a null in its key: nobody could ask for it. */
export function refuseWithoutKey(rows: readonly Row[], schema: TableSchema): void {
  const isWhole = (row: Row) => schema.primaryKey.every((name) => cellOf(schema, name, row) !== null)
  if (rows.every(isWhole)) return
  throw new SluiceError('INVALID_DATA', 'a column that identifies the row is null', { code: 'missing_key' })
}

function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the write was ended by its caller', { code: 'aborted' })
}

/**
 * The content after the changes; what was there stays untouched. A full set is the whole content, so a history begins
 * anew with it: it is rebuilt by its epochs in order.
 */
export function applyChanges(
  former: readonly RowVersion[],
  staged: StagedChanges,
  place: { readonly schema: TableSchema; readonly config: ReferenceConfig },
  commit: Commit,
): Content {
  const before = staged.mode === 'full' ? [] : former
  const closed = before.filter((version) => version.validTo !== null)
  const open = new Map(before.filter((version) => version.validTo === null).map((version) => [version.key, version]))
  const keysOf = rowKeys(place.schema, commit.epoch)
  const upserts = new Map(staged.upserts.map((row, index) => [keysOf(row, index), row]))
  const isHistory = place.config.history_mode === 'type_2'
  for (const key of staged.deletedKeys) {
    const version = open.get(key)
    if (version && isHistory) closed.push({ ...version, validTo: commit.committedAt })
    open.delete(key)
  }
  for (const [key, row] of upserts) {
    const version = open.get(key)
    const next = upsert(version, { key, row }, place, commit.committedAt)
    if (version && isHistory && next.validFrom !== version.validFrom) {
      closed.push({ ...version, validTo: commit.committedAt })
    }
    open.set(key, next)
  }
  const { epoch, fence, committedAt } = commit
  return { applied: { epoch, fence, committedAt }, versions: [...closed, ...open.values()] }
}

/** The version that holds after the upsert; one with another `validFrom` takes the former's place in the history. */
function upsert(
  former: RowVersion | undefined,
  { key, row }: { readonly key: string; readonly row: Row },
  { schema, config }: { readonly schema: TableSchema; readonly config: ReferenceConfig },
  committedAt: string,
): RowVersion {
  if (!former) return { key, row, validFrom: committedAt, validTo: null, previous: {} }
  const changed = (config.tracked_columns ?? []).filter((name) => !sameCell(schema, name, former.row, row))
  if (changed.length === 0) return { ...former, row }
  if (config.history_mode === 'type_2') return { key, row, validFrom: committedAt, validTo: null, previous: {} }
  const previous: Record<string, Value> = { ...former.previous }
  for (const name of changed) previous[name] = cellOf(schema, name, former.row)
  return { ...former, row, previous }
}

function sameCell(schema: TableSchema, name: string, left: Row, right: Row): boolean {
  return isDeepStrictEqual(cellOf(schema, name, left), cellOf(schema, name, right))
}

/** Null for a column that the row was written without. */
export function cellOf(schema: TableSchema, name: string, row: Row): Value {
  return row[schema.columns.findIndex((column) => column.name === name)] ?? null
}

function rowKeys(schema: TableSchema, epoch: number): (row: Row, index: number) => string {
  if (schema.primaryKey.length === 0) return (_, index) => `${epoch}/${index}`
  return (row) => keyText(schema.primaryKey.map((name) => cellOf(schema, name, row)))
}

/** A JSON array of the values' texts, so that `a|b`,`c` and `a`,`b|c` stay apart. */
export function keyText(values: Row): string {
  return JSON.stringify(
    values.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value))),
  )
}
