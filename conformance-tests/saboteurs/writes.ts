/** Stores that lose, double or mangle what is written. */
import type { Row, TableSchema, Value } from '@sluice/sdk'
import { counted, type Saboteur, type Store, sabotagedPlugin, saboteur, withUpserts } from './wrap.ts'

/** A write whose rows are changed on their way in. */
function writingRows(
  store: Store,
  change: (rows: readonly Row[], schema: TableSchema) => readonly Row[],
): Store['write'] {
  return async (target, changes, commit) => {
    const wrong = withUpserts(changes, (rows) => change(rows, changes.schema))
    return store.write(target, await counted(wrong), commit)
  }
}

function cells(change: (value: NonNullable<Value>, type: string) => Value) {
  return (rows: readonly Row[], schema: TableSchema) =>
    rows.map((row) =>
      row.map((value, index) => (value === null ? null : change(value, schema.columns[index]?.type ?? ''))),
    )
}

export const writeSaboteurs: readonly Saboteur[] = [
  saboteur('stores longs as doubles', [35], (store) => ({
    write: writingRows(
      store,
      cells((value) => (typeof value === 'bigint' ? BigInt(Number(value) - (Number(value) % 2 === 0 ? 0 : 0)) : value)),
    ),
  })),
  saboteur('turns empty text into null', [35], (store) => ({
    write: writingRows(
      store,
      cells((value) => (value === '' ? null : value)),
    ),
  })),
  saboteur('cuts timestamps to milliseconds', [35], (store) => ({
    write: writingRows(
      store,
      cells((value, type) => (type === 'timestamp' ? `${String(value).slice(0, 23)}000` : value)),
    ),
  })),
  saboteur('loses the sign of zero', [35], (store) => ({
    write: writingRows(
      store,
      cells((value) => (value === 0 ? 0 : value)),
    ),
  })),
  saboteur('keeps the former value where the new one is null', [37], (store, memory) => ({
    async write(target, changes, commit) {
      const former = new Map(
        memory
          .get(target)
          ?.contents.at(-1)
          ?.versions.map(({ row }) => [String(row[0]), row]),
      )
      const merge = (rows: readonly Row[]) =>
        rows.map((row) => row.map((cell, index) => cell ?? former.get(String(row[0]))?.[index] ?? null))
      return store.write(target, withUpserts(changes, merge), commit)
    },
  })),
  saboteur('touches the neighbour of an upserted row', [38], (store, memory) => ({
    async write(target, changes, commit) {
      const receipt = await store.write(target, changes, commit)
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      if (!stored || !content || changes.mode === 'full') return receipt
      const versions = content.versions.map((version, index) =>
        index === 1 ? { ...version, row: version.row.with(4, -1) } : version,
      )
      stored.contents = [...stored.contents.slice(0, -1), { ...content, versions }]
      return receipt
    },
  })),
  saboteur('joins composite keys with a colon', [39], (store) => ({
    write: writingRows(store, (rows, schema) => {
      const joined = (row: Row) =>
        schema.primaryKey.map((name) => row[schema.columns.findIndex((column) => column.name === name)]).join(':')
      return [...new Map(rows.map((row) => [joined(row), row])).values()]
    }),
  })),
  saboteur('folds the case of keys', [39], (store) => ({
    write: writingRows(store, (rows) => [
      ...new Map(rows.map((row) => [row.slice(0, 3).join('\0').toLowerCase(), row])).values(),
    ]),
  })),
  saboteur('takes an empty set for nothing to do', [42], (store) => ({
    async write(target, changes, commit) {
      if (changes.upsertCount + changes.deleteCount > 0) return store.write(target, changes, commit)
      return { epoch: commit.epoch, outcome: 'applied', upserted: 0, deleted: 0 }
    },
  })),
  saboteur('does not delete', [44], (store) => ({
    write: (target, changes, commit) =>
      store.write(target, { ...changes, deleteCount: 0, async *deletes() {} }, commit),
  })),
  saboteur('takes full sets for deltas', [45], (store) => ({
    write: (target, changes, commit) => store.write(target, { ...changes, mode: 'delta' }, commit),
  })),
  saboteur('takes deltas for full sets', [46], (store) => ({
    write: (target, changes, commit) => store.write(target, { ...changes, mode: 'full' }, commit),
  })),
  saboteur('applies an epoch again and says so', [59], (store) => ({
    async write(target, changes, commit) {
      return { ...(await store.write(target, changes, commit)), outcome: 'applied' }
    },
  })),
  saboteur('applies an epoch that it has once more', [68], (store, memory) => ({
    async write(target, changes, commit) {
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      if (stored && content?.applied.epoch === commit.epoch && content.applied.fence === commit.fence) {
        stored.contents = [
          ...stored.contents.slice(0, -1),
          { ...content, applied: { ...content.applied, epoch: commit.epoch - 0.5 } },
        ]
        return {
          ...(await store.write(target, changes, { ...commit, previousEpoch: null })),
          outcome: 'already_applied',
        }
      }
      return store.write(target, changes, commit)
    },
  })),
  saboteur('shows rows as they come', [60, 62, 118], (store, memory) => ({
    async write(target, changes, commit) {
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      if (
        stored &&
        content &&
        content.applied.epoch < commit.epoch &&
        commit.fence >= stored.fence &&
        commit.previousEpoch === content.applied.epoch
      ) {
        const [first] = content.versions
        if (first)
          stored.contents = [
            ...stored.contents.slice(0, -1),
            { ...content, versions: content.versions.with(0, { ...first, row: first.row.with(2, 'half written') }) },
          ]
      }
      if (stored && content && changes.mode === 'full' && commit.fence >= stored.fence) {
        stored.contents = [...stored.contents.slice(0, -1), { ...content, versions: [] }]
      }
      return store.write(target, changes, commit)
    },
  })),
  saboteur('recovers the epoch after the last', [61, 64], (store) => ({
    async recover(target) {
      const applied = (await store.recover?.(target)) ?? null
      return applied && { ...applied, epoch: applied.epoch + 1 }
    },
  })),
  saboteur('recovers the time of its own clock', [64], (store) => ({
    async recover(target) {
      const applied = (await store.recover?.(target)) ?? null
      return applied && { ...applied, committedAt: new Date().toISOString().replace('Z', '000Z') }
    },
  })),
  saboteur('refuses to repeat a write whose answer was lost', [62, 63], (store) => {
    const begun = new Map<unknown, number>()
    return {
      async write(target, changes, commit) {
        const receipt = await store.write(target, changes, commit)
        begun.set(target, commit.epoch)
        return receipt.outcome === 'already_applied' && !begun.has(changes) ? { ...receipt, epoch: 0 } : receipt
      },
    }
  }),
  saboteur('does not look at the fence', [65, 73], (store, memory) => ({
    write(target, changes, commit) {
      const fence = memory.get(target)?.fence ?? 0n
      return store.write(target, changes, { ...commit, fence: commit.fence > fence ? commit.fence : fence })
    },
  })),
  saboteur('lets the second of two writers apply as well', [67], (store, memory) => ({
    async write(target, changes, commit) {
      const before = memory.get(target)?.contents.at(-1)
      const receipt = await store.write(target, changes, commit)
      const late = receipt.outcome === 'already_applied' && before && before.applied.epoch < commit.epoch
      return late ? { ...receipt, outcome: 'applied' } : receipt
    },
  })),
  saboteur('takes an older epoch', [69], (store, memory) => ({
    async write(target, changes, commit) {
      const stored = memory.get(target)
      const newest = stored?.contents.at(-1)
      if (stored && newest && commit.epoch < newest.applied.epoch) stored.contents = []
      return store.write(target, changes, commit)
    },
  })),
  saboteur('takes a delta from any epoch', [69], (store) => ({
    write: (target, changes, commit) => store.write(target, changes, { ...commit, previousEpoch: null }),
  })),
  sabotagedPlugin('forgets the fence when it is closed', [73], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      for (const stored of settings.memory.all()) stored.fence = 0n
      return plugin.open(settings, host)
    },
  })),
  sabotagedPlugin('forgets rows when it is closed', [9, 64, 73, 112, 121], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      for (const stored of settings.memory.all()) stored.contents = []
      return plugin.open(settings, host)
    },
  })),
]
