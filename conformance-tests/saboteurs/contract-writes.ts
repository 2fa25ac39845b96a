/** Mistakes of writing and keeping that were written from the contract alone, before any check was looked at. */
import { isDeepStrictEqual } from 'node:util'
import { batchFromRows, parseKeyTemplate, type Row, renderKey, rowsOf, SluiceError, type Value } from '@sluice/sdk'
import { digestOf } from '../reference/digest.ts'
import reference, { type ReferenceMemory } from '../reference/index.ts'
import type { RowVersion } from '../reference/memory.ts'
import { counted, type Saboteur, type Store, sabotagedPlugin, saboteur, withUpserts } from './wrap.ts'

type Asked = Parameters<Store['write']>[0]

const addressOf = ({ scope, domain, product, variant }: Asked) =>
  JSON.stringify([scope.tenant, domain, product, variant])

/** The newest content changed behind a write that was applied. */
export function afterWrite(
  store: Store,
  memory: ReferenceMemory,
  change: (
    versions: readonly RowVersion[],
    parts: { readonly target: Asked; readonly former: readonly RowVersion[]; readonly committedAt: string },
  ) => readonly RowVersion[],
): Partial<Store> {
  return {
    async write(target, changes, commit) {
      const former = memory.get(target)?.contents.at(-1)?.versions ?? []
      const receipt = await store.write(target, changes, commit)
      const stored = memory.get(target)
      const last = stored?.contents.at(-1)
      if (receipt.outcome === 'applied' && stored && last) {
        const versions = change(last.versions, { target, former, committedAt: commit.committedAt })
        stored.contents = [...stored.contents.slice(0, -1), { ...last, versions }]
      }
      return receipt
    },
  }
}

/** A tracked column that becomes what it is taken for opens no state. */
export const merging = (
  store: Store,
  memory: ReferenceMemory,
  isAlike: (now: Value, was: Value) => boolean,
): Partial<Store> =>
  afterWrite(store, memory, (versions, { target, former, committedAt }) => {
    if (target.config.history_mode !== 'type_2') return versions
    const open = new Map(former.filter(({ validTo }) => validTo === null).map((one) => [one.key, one]))
    const merged = new Set<string>()
    const next = versions.map((one) => {
      const was = open.get(one.key)
      if (!was || one.validTo !== null || one.validFrom !== committedAt) return one
      const at = (name: string) => target.schema.columns.findIndex((column) => column.name === name)
      const cell = (version: RowVersion, name: string) => version.row[at(name)] ?? null
      if (!(target.config.tracked_columns ?? []).every((name) => isAlike(cell(one, name), cell(was, name)))) return one
      merged.add(one.key)
      return { ...one, validFrom: was.validFrom }
    })
    return next.filter((one) => !(merged.has(one.key) && one.validTo === committedAt))
  })

export const contractWrites: readonly Saboteur[] = [
  saboteur('takes a tracked column that becomes null for unchanged', [100], (store, memory) =>
    merging(store, memory, (now, was) => now === null || isDeepStrictEqual(now, was)),
  ),
  saboteur('brings the former value of a deleted row back with a row of its key', [103], (store, memory) => {
    const gone = new Map<string, RowVersion>()
    return afterWrite(store, memory, (versions, { target, former }) => {
      if (target.config.history_mode !== 'type_3') return versions
      const keys = new Set(versions.map(({ key }) => key))
      const before = new Set(former.map(({ key }) => key))
      for (const one of former) if (!keys.has(one.key)) gone.set(addressOf(target) + one.key, one)
      return versions.map((one) => {
        const was = gone.get(addressOf(target) + one.key)
        if (!was || before.has(one.key)) return one
        const previous: Record<string, Value> = {}
        for (const name of target.config.tracked_columns ?? []) {
          previous[name] = was.row[target.schema.columns.findIndex((column) => column.name === name)] ?? null
        }
        return { ...one, previous }
      })
    })
  }),
  saboteur('digests the first 32 columns', [169], (store, memory) => ({
    async digest(target, signal) {
      const stored = memory.get(target)
      if (!stored) return store.digest?.(target, signal) as never
      const { contents } = stored
      stored.contents = contents.map((one) => ({
        ...one,
        versions: one.versions.map((version) => ({ ...version, row: version.row.slice(0, 32) })),
      }))
      try {
        return await (store.digest?.(target, signal) as never)
      } finally {
        stored.contents = contents
      }
    },
  })),
  saboteur('normalises texts for the digest', [150], (store, memory) => ({
    async digest(target, signal) {
      const digest = await store.digest?.(target, signal)
      const stored = memory.get(target)
      const content = stored?.contents.find(({ applied }) => applied.epoch === stored.servedEpoch)
      if (!content) return digest as never
      const versions = content.versions.map((version) => ({
        ...version,
        row: version.row.map((cell) => (typeof cell === 'string' ? cell.normalize('NFC') : cell)),
      }))
      return digestOf({ ...content, versions })
    },
  })),
  saboteur('answers by the former key of a row whose key has changed', [114], (store, memory) => {
    const stale = new Map<string, Row>()
    const keysOf = (target: Asked, versions: readonly RowVersion[]) => {
      const template = parseKeyTemplate(target.config.key_template ?? '')
      if ('problem' in template) return new Map<string, Row>()
      const cell = (row: Row) => (name: string) =>
        row[target.schema.columns.findIndex((column) => column.name === name)] ?? null
      return new Map(versions.map(({ row }) => [renderKey(template, target.schema, cell(row)) ?? '', row]))
    }
    return {
      ...afterWrite(store, memory, (versions, { target, former }) => {
        const now = keysOf(target, versions)
        const rowKeys = new Set(versions.map(({ key }) => key))
        for (const [key, row] of keysOf(
          target,
          former.filter(({ key }) => rowKeys.has(key)),
        )) {
          if (!now.has(key)) stale.set(addressOf(target) + key, row)
        }
        return versions
      }),
      async *read(target, plan) {
        const row = plan.operation === 'key' ? stale.get(addressOf(target) + plan.key) : undefined
        for await (const batch of store.read(target, plan)) {
          if (row === undefined || batch.rowCount > 0 || 'json' in batch) yield batch
          else {
            const cells = plan.columns.map(
              (name) => row[target.schema.columns.findIndex((one) => one.name === name)] ?? null,
            )
            yield { ...batch, ...batchFromRows([cells], plan.columns.length) }
          }
        }
      },
    }
  }),
  sabotagedPlugin('counts the time to live from the write on', [93], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      return {
        ...store,
        write: (target, changes, commit) =>
          store.write(target, changes, {
            ...commit,
            committedAt:
              target.config.ttl === undefined
                ? commit.committedAt
                : new Date(host.clock.nowMs()).toISOString().replace('Z', '000Z'),
          }),
      }
    },
  })),
  saboteur('applies the first batch of deletes', [152], (store) => ({
    async write(target, changes, commit) {
      let deleteCount = 0
      for await (const batch of changes.deletes()) {
        deleteCount = batch.rowCount
        break
      }
      const receipt = await store.write(
        target,
        {
          ...changes,
          deleteCount,
          async *deletes() {
            for await (const batch of changes.deletes()) {
              yield batch
              return
            }
          },
        },
        commit,
      )
      return receipt.outcome === 'applied' ? { ...receipt, deleted: changes.deleteCount } : receipt
    },
  })),
  saboteur('deletes no row whose key is empty, 0 or false', [174], (store) => ({
    async write(target, changes, commit) {
      let deleteCount = 0
      const kept = async function* () {
        for await (const batch of changes.deletes()) {
          const rows = [...rowsOf(batch)].filter((key) => key.length === 0 || !key.every((value) => !value))
          yield batchFromRows(rows, batch.columns.length)
        }
      }
      for await (const batch of kept()) deleteCount += batch.rowCount
      const receipt = await store.write(target, { ...changes, deleteCount, deletes: kept }, commit)
      return receipt.outcome === 'applied' ? { ...receipt, deleted: changes.deleteCount } : receipt
    },
  })),
  saboteur('looks at the signal of a write before the first batch alone', [173], (store) => ({
    async write(target, changes, commit) {
      if (commit.signal.aborted) throw new SluiceError('TRANSIENT', 'the write was ended', { code: 'aborted' })
      return store.write(target, changes, { ...commit, signal: new AbortController().signal })
    },
  })),
  saboteur('recovers the time of a commit by milliseconds', [70], (store) => ({
    async recover(target) {
      const found = await store.recover?.(target)
      return found ? { ...found, committedAt: found.committedAt.replace(/\d{3}Z$/, '000Z') } : null
    },
  })),
  saboteur('takes tokens for JavaScript numbers', [70], (store) => ({
    write: (target, changes, commit) =>
      store.write(target, changes, { ...commit, fence: BigInt(Number(commit.fence)) }),
    async recover(target) {
      return (await store.recover?.(target)) ?? null
    },
  })),
  saboteur('drops the masked twin with the clear copy', [32], (store) => ({
    async drop(target, mode) {
      const plan = await store.drop(target, mode)
      if (mode === 'apply' && target.variant === 'clear') await store.drop({ ...target, variant: 'masked' }, mode)
      return plan
    },
  })),
  saboteur('notes by product that a policy is in place', [165], (store, memory) => ({
    rls: {
      ...store.rls,
      async install(target, policy) {
        await store.rls.install(target, policy)
        for (const variant of ['clear', 'masked'] as const) {
          if (memory.get({ ...target, variant })) await store.rls.install({ ...target, variant }, policy)
        }
      },
    },
  })),
  saboteur('forgets the token where columns are added', [166], (store, memory) => ({
    async provision(target, mode, hash) {
      const plan = await store.provision(target, mode, hash)
      const stored = memory.get(target)
      if (mode === 'apply' && stored && plan.steps.some(({ action }) => action === 'alter')) stored.fence = 0n
      return plan
    },
  })),
  sabotagedPlugin('leaves a timer of the host running', [9], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      let ticks = 0
      host.clock.every(60_000, () => {
        ticks += 1
        host.metrics.observe('uptime_minutes', ticks)
      })
      return store
    },
  })),
  saboteur('tells binary keys apart by their text', [41], (store) => ({
    async write(target, changes, commit) {
      const { columns, primaryKey } = target.schema
      const at = primaryKey.map((name) => columns.findIndex((column) => column.name === name))
      const textOf = (value: Value | undefined) =>
        value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value)
      if (primaryKey.length === 0) return store.write(target, changes, commit)
      const merged = withUpserts(changes, (rows) => [
        ...new Map(rows.map((row) => [JSON.stringify(at.map((index) => textOf(row[index]))), row])).values(),
      ])
      return store.write(target, await counted(merged), commit)
    },
  })),
  saboteur('remembers over a drop that a policy is in place', [165], (store, memory) => {
    const guarded = new Map<string, { version: string; tenantIsolation: 'forced' }>()
    return {
      rls: {
        ...store.rls,
        async install(target, policy) {
          await store.rls.install(target, policy)
          guarded.set(addressOf(target), policy)
        },
      },
      async *read(target, plan) {
        const stored = memory.get(target)
        const policy = guarded.get(addressOf(target))
        if (stored && stored.policy === null && policy) stored.policy = policy
        yield* store.read(target, plan)
      },
    }
  }),
  saboteur('keeps the tokens of a tenant that is dropped', [165], (store, memory) => {
    const tokens = new Map<string, bigint>()
    return {
      async write(target, changes, commit) {
        const seen = tokens.get(addressOf(target))
        const stored = memory.get(target)
        if (seen !== undefined && stored && stored.fence < seen) stored.fence = seen
        try {
          return await store.write(target, changes, commit)
        } finally {
          const { fence } = memory.get(target) ?? { fence: 0n }
          tokens.set(addressOf(target), fence)
        }
      },
      async drop(target, mode) {
        if (mode === 'apply') tokens.delete(addressOf(target))
        return store.drop(target, mode)
      },
    }
  }),
]
