/** Mistakes of writing, keeping and provisioning, by outsiders who had the contract and none of the checks. */
import { isDeepStrictEqual } from 'node:util'
import {
  type ChangeSet,
  isSluiceError,
  planOfSteps,
  rowsOf,
  SluiceError,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import reference from '../reference/index.ts'
import type { RowVersion } from '../reference/memory.ts'
import { afterWrite, merging } from './contract-writes.ts'
import { type Saboteur, type Store, sabotagedPlugin, saboteur, withUpserts } from './wrap.ts'

type Memory = Parameters<Parameters<typeof saboteur>[2]>[1]

/** The values before the last change, changed. */
const previously = (
  store: Store,
  memory: Memory,
  change: (now: RowVersion, was: RowVersion, schema: TableSchema) => Record<string, Value>,
): Partial<Store> =>
  afterWrite(store, memory, (versions, { target, former }) => {
    const before = new Map(former.map((one) => [one.key, one]))
    return versions.map((one) => {
      const was = before.get(one.key)
      const isChanged = was !== undefined && !isDeepStrictEqual(was.previous, one.previous)
      return isChanged ? { ...one, previous: change(one, was, target.schema) } : one
    })
  })

/** Provisions over what is there where the two schemas look alike, and moves nothing. */
const taking = (store: Store, memory: Memory, looksAs: (schema: TableSchema) => unknown): Partial<Store> => ({
  async provision(target, mode, hash) {
    const stored = memory.get(target)
    const isTaken = stored && isDeepStrictEqual(looksAs(stored.schema), looksAs(target.schema))
    if (!isTaken || isDeepStrictEqual(stored.schema, target.schema)) return store.provision(target, mode, hash)
    if (mode === 'apply') Object.assign(stored, { schema: target.schema, config: target.config })
    return planOfSteps([{ action: 'alter', description: 'take the columns as they are' }])
  },
})

async function countOf(batches: ReturnType<ChangeSet['deletes']>): Promise<number> {
  let count = 0
  for await (const batch of batches) count += batch.rowCount
  return count
}

async function* forgiving<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* items
  } catch {
    // What has come is taken for all there was.
  }
}

export const outsideWrites: readonly Saboteur[] = [
  saboteur('takes a delta where it has no rows to begin from', [182], (store, memory) => ({
    async write(target, changes, commit) {
      const isEmpty = memory.get(target)?.contents.length === 0
      return store.write(target, changes, isEmpty ? { ...commit, previousEpoch: null } : commit)
    },
  })),
  saboteur('counts the upserts of a set alone', [183], (store) => ({
    async write(target, changes, commit) {
      return store.write(target, { ...changes, deleteCount: await countOf(changes.deletes()) }, commit)
    },
  })),
  saboteur('takes a stream that breaks for one that ends', [183], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        { ...changes, upserts: () => forgiving(changes.upserts()), deletes: () => forgiving(changes.deletes()) },
        commit,
      ),
  })),
  saboteur('tells the row that it refuses in the details of its error', [184], (store) => ({
    async write(target, changes, commit) {
      try {
        return await store.write(target, changes, commit)
      } catch (error) {
        if (!isSluiceError(error, 'INVALID_DATA')) throw error
        const rows: string[] = []
        for await (const batch of changes.upserts()) rows.push(...[...rowsOf(batch)].map(String))
        throw new SluiceError('INVALID_DATA', error.message, { code: error.code, details: { rows } })
      }
    },
  })),
  sabotagedPlugin('logs the first row of a write that ends early', [184], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      return {
        ...store,
        async write(target, changes, commit) {
          try {
            return await store.write(target, changes, commit)
          } catch (error) {
            if (!isSluiceError(error, 'CONFLICT')) throw error
            for await (const batch of changes.upserts()) host.logger.warn('ended early', { row: [...rowsOf(batch)][0] })
            throw error
          }
        },
      }
    },
  })),
  saboteur('keeps documents as JavaScript reads them', [185], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withUpserts(changes, (rows) =>
          rows.map((row) =>
            row.map((cell, index) =>
              changes.schema.columns[index]?.type === 'json' && typeof cell === 'string'
                ? JSON.stringify(JSON.parse(cell))
                : cell,
            ),
          ),
        ),
        commit,
      ),
  })),
  saboteur('takes no value and an empty text for one in a history', [186], (store, memory) =>
    merging(store, memory, (left, right) => isDeepStrictEqual(left ?? '', right ?? '')),
  ),
  saboteur('opens a state whenever bytes are written again', [186], (store, memory) =>
    afterWrite(store, memory, (versions, { target, former, committedAt }) => {
      if (target.config.history_mode !== 'type_2') return versions
      const before = new Map(former.filter(({ validTo }) => validTo === null).map((one) => [one.key, one]))
      return versions.flatMap((one) => {
        const was = before.get(one.key)
        const isSame = was !== undefined && was !== one && one.validTo === null && one.validFrom === was.validFrom
        if (!isSame || !one.row.some((cell) => cell instanceof Uint8Array)) return [one]
        return [
          { ...was, validTo: committedAt },
          { ...one, validFrom: committedAt },
        ]
      })
    }),
  ),
  saboteur('keeps an older value where the one before was null', [187], (store, memory) =>
    previously(store, memory, (now, was) =>
      Object.fromEntries(
        Object.entries(now.previous).map(([name, value]) => [name, value ?? was.previous[name] ?? null]),
      ),
    ),
  ),
  saboteur('moves no value where columns change their places', [192], (store, memory) =>
    taking(store, memory, ({ columns, primaryKey }) => [
      columns.toSorted((left, right) => (left.name < right.name ? -1 : 1)),
      primaryKey,
    ]),
  ),
  saboteur('takes decimals of other places for the same type', [192], (store, memory) =>
    taking(store, memory, ({ columns, primaryKey }) => [
      columns.map((column) => ({ ...column, type: typeName(column.type) })),
      primaryKey,
    ]),
  ),
]
