/** Stores that get places, names and the moments around a commit wrong. */
import { SluiceError, type Target } from '@sluice/sdk'
import type { ReferenceConfig } from '../reference/index.ts'
import { type Saboteur, type Store, sabotagedPlugin, saboteur, withUpserts } from './wrap.ts'

type ReferenceTarget = Target<ReferenceConfig>

/** Products and domains are kept under other names. */
function renaming(store: Store, rename: (name: string) => string): Partial<Store> {
  const moved = (target: ReferenceTarget): ReferenceTarget => ({
    ...target,
    domain: rename(target.domain),
    product: rename(target.product),
  })
  return {
    provision: (target, mode, hash) => store.provision(moved(target), mode, hash),
    rls: {
      install: (target, policy) => store.rls.install(moved(target), policy),
      describe: (target) => store.rls.describe(moved(target)),
    },
    write: (target, changes, commit) => store.write(moved(target), changes, commit),
    read: (target, plan) => store.read(moved(target), plan),
    drop: (target, mode) => store.drop(moved(target), mode),
  }
}

export const placeSaboteurs: readonly Saboteur[] = [
  sabotagedPlugin('logs the rows that it could not write', [4], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        async write(target, changes, commit) {
          try {
            return await store.write(target, changes, commit)
          } catch (error) {
            host.logger.error('write failed', { rows: await Array.fromAsync(changes.upserts()) })
            throw error
          }
        },
      }
    },
  })),
  saboteur('answers a write that its close has ended', [10], (store) => {
    let closing = false
    return {
      async write(target, changes, commit) {
        await new Promise(setImmediate)
        if (!closing) return store.write(target, changes, commit)
        return { epoch: commit.epoch, outcome: 'applied', upserted: changes.upsertCount, deleted: 0 }
      },
      async close() {
        closing = true
        await store.close()
      },
    }
  }),
  sabotagedPlugin('closes all stores with one', [11], (plugin) => {
    let opens = 0
    let last = 0
    return {
      ...plugin,
      async open(settings, host) {
        const store = await plugin.open(settings, host)
        opens += 1
        const mine = opens
        return {
          ...store,
          async write(target, changes, commit) {
            if (last > mine) throw new SluiceError('TRANSIENT', 'the pool is closed', { code: 'closed' })
            return store.write(target, changes, commit)
          },
          async close() {
            last = mine
            await store.close()
          },
        }
      },
    }
  }),
  saboteur('takes a place that was half made for whole', [21], (store, memory) => ({
    async provision(target, mode, hash) {
      try {
        return await store.provision(target, mode, hash)
      } catch (error) {
        const stored = memory.get(target)
        if (stored) stored.schema = { ...stored.schema, primaryKey: [] }
        throw error
      }
    },
  })),
  saboteur('makes one place of what is made at once', [22], (store, memory) => {
    let running = 0
    return {
      async provision(target, mode, hash) {
        running += 1
        await new Promise(setImmediate)
        const isContended = mode === 'apply' && running > 1
        const plan = await store.provision(target, mode, hash)
        const stored = memory.get(target)
        if (isContended && stored) stored.schema = { columns: stored.schema.columns.slice(0, 1), primaryKey: ['id'] }
        running -= 1
        return plan
      },
    }
  }),
  saboteur('cuts names to 63 characters', [24], (store) => renaming(store, (name) => name.slice(0, 63))),
  saboteur('takes accents off names', [24], (store) =>
    renaming(store, (name) => name.normalize('NFD').replaceAll(/\p{M}/gu, '')),
  ),
  saboteur('takes quotes out of names', [25], (store) => renaming(store, (name) => name.replaceAll(/["'`;-]/g, ''))),
  saboteur('folds the case of names', [26], (store) => renaming(store, (name) => name.toLowerCase())),
  saboteur('finds every schema satisfiable', [28], (store) => ({
    async validate(target, previous) {
      const verdicts = (await store.validate?.(target, previous)) ?? []
      return verdicts.map((verdict) => ({ ...verdict, verdict: 'optional' }))
    },
  })),
  saboteur('gives no reasons', [27], (store) => ({
    async validate(target, previous) {
      return ((await store.validate?.(target, previous)) ?? []).map((verdict) => ({ ...verdict, reason: ' ' }))
    },
  })),
  saboteur('makes the place anew for a new column', [29], (store, memory) => ({
    async provision(target, mode, hash) {
      const before = memory.get(target)?.schema.columns.length ?? 0
      const plan = await store.provision(target, mode, hash)
      const stored = memory.get(target)
      if (mode === 'apply' && stored && before > 0 && before < target.schema.columns.length) {
        stored.contents = stored.contents.map((content) => ({ ...content, versions: [] }))
      }
      return plan
    },
  })),
  saboteur('takes any schema', [23, 30], (store, memory) => ({
    async provision(target, mode, hash) {
      const stored = memory.get(target)
      if (stored) stored.schema = target.schema
      return store.provision(target, mode, hash)
    },
  })),
  saboteur('always plans to drop', [31], (store) => ({
    async drop(target, mode) {
      return { ...(await store.drop(target, mode)), steps: [{ action: 'drop', description: 'drop it' }] }
    },
  })),
  saboteur('cuts long text', [43], (store) => ({
    write(target, changes, commit) {
      const cut = (value: unknown) => (typeof value === 'string' ? value.slice(0, 65_535) : value)
      return store.write(
        target,
        withUpserts(changes, (rows) => rows.map((row) => row.map(cut) as typeof row)),
        commit,
      )
    },
  })),
  saboteur('shows the new epoch row by row', [47, 50], (store, memory) => ({
    async write(target, changes, commit) {
      const content = memory.get(target)?.contents.at(-1)
      const stored = memory.get(target)
      if (stored && content) {
        stored.contents = [...stored.contents.slice(0, -1), { ...content, versions: content.versions.slice(1) }]
      }
      return store.write(target, changes, commit)
    },
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        yield batch
        // The rest is read from what is there by then.
        const { rowCount, epoch } = batch
        const now = memory.get(target)?.servedEpoch ?? epoch
        if (rowCount > 0 && now !== epoch) yield { ...batch, rowCount: 0, ...emptied(batch), epoch: now }
      }
    },
  })),
  saboteur('does not look whether anybody waits', [57], (store) => ({
    read: (target, plan) => store.read(target, { ...plan, signal: new AbortController().signal }),
    write: (target, changes, commit) =>
      store.write(target, changes, { ...commit, signal: new AbortController().signal }),
  })),
  saboteur('applies a write whose process ended only in part', [62, 72], (store, memory) => ({
    async write(target, changes, commit) {
      const before = memory.get(target)?.contents.at(-1)
      try {
        return await store.write(target, changes, commit)
      } catch (error) {
        const stored = memory.get(target)
        const isCrash = (error as { code?: string }).code === 'simulated_crash'
        if (isCrash && stored && before && stored.contents.at(-1) === before) {
          stored.contents = [...stored.contents.slice(0, -1), { ...before, versions: before.versions.slice(1) }]
        }
        throw error
      }
    },
  })),
]

function emptied(batch: { readonly rowCount: number }) {
  return 'json' in batch ? { json: '[]' } : { columns: [] }
}
