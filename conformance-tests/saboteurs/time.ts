/** Stores that get times wrong: histories, ranges, aggregates, expiry, and the keys of values that expire. */
import type { ReadPlan } from '@sluice/sdk'
import type { ReferenceMemory } from '../reference/index.ts'
import type { RowVersion, StoredDataset } from '../reference/memory.ts'
import { readingWith, type Saboteur, type Store, saboteur, withRows } from './wrap.ts'

/** After each write the newest content is changed in the store's memory. */
function rewriting(
  store: Store,
  memory: ReferenceMemory,
  change: (versions: readonly RowVersion[], stored: StoredDataset) => readonly RowVersion[],
): Store['write'] {
  return async (target, changes, commit) => {
    const receipt = await store.write(target, changes, commit)
    const stored = memory.get(target)
    const content = stored?.contents.at(-1)
    if (!stored || !content || receipt.outcome !== 'applied') return receipt
    stored.contents = [...stored.contents.slice(0, -1), { ...content, versions: change(content.versions, stored) }]
    return receipt
  }
}

function readingOf(
  store: Store,
  operation: ReadPlan['operation'],
  change: (plan: ReadPlan) => ReadPlan,
): Partial<Store> {
  return { read: (target, plan) => store.read(target, plan.operation === operation ? change(plan) : plan) }
}

function later(instant: string): string {
  return instant.replace(/000000Z$/, '000001Z')
}

export const timeSaboteurs: readonly Saboteur[] = [
  saboteur('leaves closed states open', [99, 100, 104, 126], (store, memory) => ({
    write: rewriting(store, memory, (versions) =>
      versions.map((version) =>
        version.validTo !== null && version.row[2] === 'first' ? { ...version, validTo: null } : version,
      ),
    ),
  })),
  saboteur('closes a state after the next has begun', [99, 104], (store, memory) => ({
    write: rewriting(store, memory, (versions) =>
      versions.map((version) => (version.validTo === null ? version : { ...version, validTo: later(version.validTo) })),
    ),
  })),
  saboteur('opens a state for every change', [100, 104], (store, memory) => ({
    async write(target, changes, commit) {
      const stored = memory.get(target)
      if (stored?.config.history_mode !== 'type_2') return store.write(target, changes, commit)
      stored.config = { ...stored.config, tracked_columns: target.schema.columns.map(({ name }) => name) }
      return store.write(target, changes, commit)
    },
  })),
  saboteur('times states by its own clock', [100, 104], (store, memory) => ({
    write: rewriting(store, memory, (versions) =>
      versions.map((version) => ({ ...version, validFrom: '2026-03-01T00:00:00.500000Z' })),
    ),
  })),
  saboteur('times a state by what its row says', [101], (store, memory) => ({
    write: rewriting(store, memory, (versions) =>
      versions.map((version) =>
        version.row[2] === 'late' ? { ...version, validFrom: String(version.row[1]) } : version,
      ),
    ),
  })),
  saboteur('goes on with a closed state when its row comes back', [102], (store, memory) => ({
    write: rewriting(store, memory, (versions) =>
      versions.flatMap((version) => {
        const closed = versions.find((other) => other.key === version.key && other.validTo !== null)
        if (version.validTo !== null)
          return versions.some((one) => one.key === version.key && one.validTo === null) ? [] : [version]
        return [closed ? { ...version, validFrom: closed.validFrom } : version]
      }),
    ),
  })),
  saboteur('takes the last column of a time for the time', [107], (store) => ({
    provision: (target, mode, hash) => {
      const last = target.schema.columns.findLast(({ type }) => type === 'timestamptz')?.name ?? 'at'
      return store.provision({ ...target, config: { ...target.config, time_column: last } }, mode, hash)
    },
  })),
  saboteur('keeps columns that are not included', [116], (store) => ({
    provision: (target, mode, hash) => {
      const { include_columns: _, ...config } = target.config
      return store.provision({ ...target, config }, mode, hash)
    },
  })),
  saboteur('answers every instant with now', [104], (store) => ({
    read: (target, plan) =>
      store.read(
        target,
        plan.history?.kind === 'at'
          ? { ...plan, history: { kind: 'at', instant: '2999-01-01T00:00:00.000000Z' } }
          : plan,
      ),
  })),
  saboteur('keeps the first previous value', [103], (store, memory) => {
    const first = new Map<string, RowVersion['previous']>()
    return {
      write: rewriting(store, memory, (versions) =>
        versions.map((version) => {
          if (Object.keys(version.previous).length === 0) return version
          const known = first.get(version.key) ?? version.previous
          first.set(version.key, known)
          return { ...version, previous: known }
        }),
      ),
    }
  }),
  saboteur('includes the end of a range', [105], (store) =>
    readingOf(store, 'range', (plan) => ({
      ...plan,
      range: { from: plan.range?.from ?? null, to: plan.range?.to ? later(plan.range.to) : null },
    })),
  ),
  saboteur('cuts ranges to days', [105], (store) =>
    readingOf(store, 'range', (plan) => ({
      ...plan,
      range: {
        from: plan.range?.from ? `${plan.range.from.slice(0, 10)}T00:00:00.000000Z` : null,
        to: plan.range?.to ?? null,
      },
    })),
  ),
  saboteur('orders a range by key', [106], (store) =>
    readingOf(store, 'range', (plan) => ({ ...plan, orderBy: [{ column: 'id', direction: 'desc' }] })),
  ),
  saboteur('appends an epoch that it has', [108], (store, memory) => ({
    async write(target, changes, commit) {
      const receipt = await store.write(target, changes, commit)
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      if (receipt.outcome !== 'already_applied' || !stored || !content) return receipt
      const versions = [
        ...content.versions,
        ...content.versions.slice(0, 1).map((version) => ({ ...version, key: `${version.key}'` })),
      ]
      stored.contents = [...stored.contents.slice(0, -1), { ...content, versions }]
      return receipt
    },
  })),
  saboteur('keeps aggregates as they were first read', [109], (store) => {
    const kept = new Map<string, readonly (readonly unknown[])[]>()
    return {
      async *read(target, plan) {
        for await (const batch of store.read(target, plan)) {
          const key = `${target.product}/${plan.interval}/${JSON.stringify(plan.range)}`
          if (plan.operation !== 'aggregate') yield batch
          else
            yield withRows(batch, (rows) => {
              if (!kept.has(key)) kept.set(key, rows)
              return kept.get(key) as typeof rows
            })
        }
      },
    }
  }),
  saboteur('counts one too few', [109, 110], (store) => ({
    read: (target, plan) =>
      readingWith(store, (batch) =>
        plan.operation === 'aggregate' && plan.columns.length > 1
          ? withRows(batch, (rows) => rows.map((row) => row.with(1, (row[1] as bigint) - 1n)))
          : batch,
      )(target, plan),
  })),
  saboteur('expires nothing', [112, 113, 117], (store, memory) => ({
    write: rewritingInstant(store, memory, (instant) => instant + 1000 * 3_600_000),
  })),
  saboteur('expires an hour early', [112], (store, memory) => ({
    write: rewritingInstant(store, memory, (instant) => instant - 3_600_000),
  })),
  saboteur('renews only what changed', [113], (store, memory) => ({
    async write(target, changes, commit) {
      const former = memory.get(target)?.contents.at(-1)?.applied.committedAt
      const receipt = await store.write(target, changes, commit)
      if (former && changes.mode === 'delta') setInstant(memory.get(target), former)
      return receipt
    },
  })),
  saboteur('writes null into keys', [114], (store, memory) => ({
    write: rewriting(store, memory, (versions, { config }) =>
      config.key_template?.startsWith('n:')
        ? versions.map((version) => ({ ...version, row: version.row.with(2, version.row[2] ?? 'null') }))
        : versions,
    ),
  })),
  saboteur('does not escape values in keys', [115], (store) => ({
    read: (target, plan) => store.read(target, plan.key === 'a:1:1' ? { ...plan, key: 'a%3A1:1' } : plan),
  })),
  saboteur('cuts long keys', [115], (store, memory) => ({
    write: rewriting(store, memory, (versions) => {
      const cut = (version: RowVersion) => String(version.row[2]).slice(0, 1000)
      const kept = new Map(versions.map((version) => [cut(version), version]))
      return versions[0] && String(versions[0].row[2]).length < 2 && versions.length === 11
        ? [...kept.values()]
        : versions
    }),
  })),
  saboteur('gives a shared key to the first row', [125], (store) => ({
    read: (target, plan) => {
      if (plan.operation !== 'key' || plan.key !== 'shared') return store.read(target, plan)
      const { key: _, ...rest } = plan
      return store.read(target, {
        ...rest,
        operation: 'scan',
        filters: [{ column: 'name', operator: 'eq', values: ['shared'] }],
      })
    },
  })),
  saboteur('does not say how long an answer stays true', [112, 113, 117], (store) => ({
    read: readingWith(store, (batch) => {
      const { ttlRemainingS: _, ...rest } = batch
      return rest
    }),
  })),
]

function rewritingInstant(store: Store, memory: ReferenceMemory, move: (instantMs: number) => number): Store['write'] {
  return async (target, changes, commit) => {
    const receipt = await store.write(target, changes, commit)
    if (receipt.outcome === 'applied') {
      setInstant(memory.get(target), new Date(move(Date.parse(commit.committedAt))).toISOString().replace('Z', '000Z'))
    }
    return receipt
  }
}

function setInstant(stored: StoredDataset | undefined, committedAt: string): void {
  const content = stored?.contents.at(-1)
  if (!stored || !content) return
  stored.contents = [...stored.contents.slice(0, -1), { ...content, applied: { ...content.applied, committedAt } }]
}
