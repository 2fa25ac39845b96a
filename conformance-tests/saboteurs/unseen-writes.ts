/** Mistakes in writes and in what is kept, by somebody who had read the contract and none of the checks. */
import { createHash } from 'node:crypto'
import {
  batchFromRows,
  type ChangeSet,
  isSluiceError,
  type Row,
  rowsOf,
  type TableSchema,
  type Target,
  tenantOf,
  type Value,
} from '@sluice/sdk'
import { cellOf, keyText } from '../reference/content.ts'
import type { ReferenceConfig } from '../reference/index.ts'
import type { RowVersion, StoredDataset } from '../reference/memory.ts'
import { counted, type Saboteur, sabotagedPlugin, saboteur, withUpserts } from './wrap.ts'

const keyOf = (schema: TableSchema, row: Row) => schema.primaryKey.map((name) => cellOf(schema, name, row))

/** Every cell of what is put in, changed. */
const withCells = (changes: ChangeSet, change: (value: Value, type: string, name: string) => Value): ChangeSet =>
  withUpserts(changes, (rows) =>
    rows.map((row) =>
      row.map((value, index) => {
        const column = changes.schema.columns[index]
        return change(value, column?.type ?? 'string', column?.name ?? '')
      }),
    ),
  )

export const unseenWriteSaboteurs: readonly Saboteur[] = [
  saboteur('tells rows apart by two columns of their key', [39, 148], (store) => ({
    provision: (target, mode, hash) => {
      const primaryKey = target.schema.primaryKey.slice(0, 2)
      return store.provision({ ...target, schema: { ...target.schema, primaryKey } }, mode, hash)
    },
    async write(target, changes, commit) {
      const { schema } = changes
      const keys = schema.primaryKey.slice(0, 2)
      if (keys.length === schema.primaryKey.length) return store.write(target, changes, commit)
      return store.write(
        target,
        {
          ...changes,
          async *deletes() {
            for await (const batch of changes.deletes()) yield { ...batch, columns: batch.columns.slice(0, 2) }
          },
        },
        commit,
      )
    },
  })),
  saboteur('takes keys for one that differ in spaces at their end', [41, 146], (store) => ({
    async write(target, changes, commit) {
      const { schema } = changes
      if (schema.primaryKey.length === 0) return store.write(target, changes, commit)
      const padded = (value: Value) => (typeof value === 'string' ? value.trimEnd() : value)
      const once = withUpserts(changes, (rows) => [
        ...new Map(rows.map((row) => [keyText(keyOf(schema, row).map(padded)), row])).values(),
      ])
      return store.write(target, await counted(once), commit)
    },
  })),
  saboteur('deletes by the columns of the key as the table has them', [39], (store) => ({
    async write(target, changes, commit) {
      const { columns, primaryKey } = changes.schema
      const asStored = columns.map(({ name }) => name).filter((name) => primaryKey.includes(name))
      return store.write(
        target,
        {
          ...changes,
          async *deletes() {
            for await (const batch of changes.deletes()) {
              const places = primaryKey.map((name) => asStored.indexOf(name))
              yield { ...batch, columns: places.map((place) => batch.columns[place] ?? []) }
            }
          },
        },
        commit,
      )
    },
  })),
  saboteur('lets a null of a delta leave what was there', [35, 37, 46], (store, memory) => ({
    async write(target, changes, commit) {
      const { schema } = changes
      const stored = memory.get(target)
      if (changes.mode === 'full' || schema.primaryKey.length === 0 || stored === undefined) {
        return store.write(target, changes, commit)
      }
      const there = new Map(currentOf(stored).map(({ key, row }) => [key, row]))
      const merged = withUpserts(changes, (rows) =>
        rows.map((row) => {
          const former = there.get(keyText(keyOf(schema, row)))
          return row.map((value, index) => value ?? former?.[index] ?? null)
        }),
      )
      return store.write(target, merged, commit)
    },
  })),
  saboteur('takes the document null for no value', [159], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withCells(changes, (value, type) => (type === 'json' && value === 'null' ? null : value)),
        commit,
      ),
  })),
  saboteur('keeps of type_3 the last value that was none', [103], (store, memory) => ({
    async write(target, changes, commit) {
      const former = new Map(currentOf(memory.get(target)).map((version) => [version.key, version]))
      const receipt = await store.write(target, changes, commit)
      const stored = memory.get(target)
      const last = stored?.contents.at(-1)
      if (stored === undefined || last === undefined || target.config.history_mode !== 'type_3') return receipt
      const versions = last.versions.map((version): RowVersion => {
        const previous = Object.entries(version.previous).map(([name, value]) => {
          return [name, value ?? former.get(version.key)?.previous[name] ?? null]
        })
        return { ...version, previous: Object.fromEntries(previous) }
      })
      stored.contents = [...stored.contents.slice(0, -1), { ...last, versions }]
      return receipt
    },
  })),
  saboteur('joins cells by a stroke for the digest', [155], (store, memory) => ({
    async digest(target, signal) {
      const { rowCount } = (await store.digest?.(target, signal)) ?? { rowCount: 0 }
      const versions = memory.get(target)?.contents.at(-1)?.versions ?? []
      const lines = versions.map(({ row, validFrom, validTo, previous }) =>
        [...row.map(digested), validFrom, validTo ?? '', ...Object.values(previous).map(digested)].join('|'),
      )
      return { rowCount, sha256: createHash('sha256').update(lines.sort().join('\n')).digest('hex') }
    },
  })),
  saboteur('forgets the tokens it has seen with its process', [73], (store, memory) => {
    const known = new Set<string>()
    return {
      async write(target, changes, commit) {
        const address = JSON.stringify([tenantOf(target.scope), target.domain, target.product, target.variant])
        const stored = memory.get(target)
        if (stored && !known.has(address)) stored.fence = 0n
        known.add(address)
        return store.write(target, changes, commit)
      },
    }
  }),
  saboteur('compares no plan where nothing is to be done', [156], (store) => ({
    async provision(target, mode, hash) {
      const plan = await store.provision(target, 'plan')
      return mode === 'plan' || plan.steps.length === 0 ? plan : store.provision(target, mode, hash)
    },
  })),
  saboteur('writes back all that it had read when it provisions', [157], (store, memory) => ({
    async provision(target, mode, hash) {
      const before = { ...memory.get(target) }
      const plan = await store.provision(target, mode, hash)
      if (mode === 'plan' || before.contents === undefined) return plan
      for (let turn = 0; turn < 20; turn += 1) await Promise.resolve()
      const { contents, policy = null, servedEpoch = null } = before
      Object.assign(memory.get(target) ?? {}, { contents, policy, servedEpoch })
      return plan
    },
  })),
  saboteur('drops tenants by their names in small letters', [158], (store, memory) => ({
    async dropTenant(scope) {
      await store.dropTenant(scope)
      const name = tenantOf(scope).toLowerCase()
      for (const { tenant } of memory.all()) if (tenant.toLowerCase() === name) memory.deleteTenant(tenant)
    },
  })),
  saboteur('goes on with an operation that nobody waits for', [132], (store) => ({
    operate: (target, plan) =>
      (store.operate as NonNullable<typeof store.operate>)(target, { ...plan, signal: new AbortController().signal }),
  })),
]

/** The second dozen, of other kinds. */
export const laterWriteSaboteurs: readonly Saboteur[] = [
  saboteur('joins domain and product by a dot', [158], (store) => {
    const joined = (target: Target<ReferenceConfig>) => ({
      ...target,
      domain: '',
      product: `${target.domain}.${target.product}`,
    })
    return {
      provision: (target, mode, hash) => store.provision(joined(target), mode, hash),
      rls: {
        install: (target, policy) => store.rls.install(joined(target), policy),
        describe: (target) => store.rls.describe(joined(target)),
      },
      write: (target, changes, commit) => store.write(joined(target), changes, commit),
      read: (target, plan) => store.read(joined(target), plan),
      operate: (target, plan) => (store.operate as NonNullable<typeof store.operate>)(joined(target), plan),
      recover: async (target) => (await store.recover?.(joined(target))) ?? null,
      validate: async (target, previous) => (await store.validate?.(joined(target), previous)) ?? [],
      activate: async (target, epoch) => store.activate?.(joined(target), epoch),
      digest: (target, signal) => (store.digest as NonNullable<typeof store.digest>)(joined(target), signal),
      drop: (target, mode) => store.drop(joined(target), mode),
    }
  }),
  saboteur('answers for an epoch it has before it looks at the token', [162], (store) => ({
    async write(target, changes, commit) {
      // A store that cannot tell has no epoch.
      const applied = await store.recover?.(target).catch(() => null)
      if (applied?.epoch !== commit.epoch) return store.write(target, changes, commit)
      return { epoch: commit.epoch, outcome: 'already_applied', upserted: 0, deleted: 0 }
    },
  })),
  saboteur('keeps tokens as numbers', [70, 151], (store) => ({
    write: (target, changes, commit) =>
      store.write(target, changes, { ...commit, fence: BigInt(Number(commit.fence)) }),
  })),
  saboteur('takes no bytes for no value', [35, 36, 120], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withCells(changes, (value) => (value instanceof Uint8Array && value.length === 0 ? null : value)),
        commit,
      ),
  })),
  saboteur('loses the mark of byte order at the start of a text', [35], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withCells(changes, (value) => (typeof value === 'string' ? value.replace(/^\uFEFF/, '') : value)),
        commit,
      ),
  })),
  saboteur('finds in a null what every object has by its name', [160], (store) => ({
    write: (target, changes, commit) =>
      store.write(
        target,
        withCells(changes, (value, type, name) =>
          value === null && type === 'string' && name in {} ? String(({} as Record<string, unknown>)[name]) : value,
        ),
        commit,
      ),
  })),
  saboteur('leaves the policy as it is where there is one', [87], (store) => ({
    rls: {
      ...store.rls,
      async install(target, policy) {
        try {
          await store.rls.describe(target)
        } catch (error) {
          if (!isSluiceError(error, 'CONFLICT')) throw error
          await store.rls.install(target, policy)
        }
      },
    },
  })),
  saboteur('drops the twins with the clear copy', [32, 77], (store) => {
    const known: Target<ReferenceConfig>[] = []
    return {
      provision(target, mode, hash) {
        if (mode === 'apply') known.push(target)
        return store.provision(target, mode, hash)
      },
      async drop(target, mode) {
        const isTwin = (one: Target<ReferenceConfig>) =>
          tenantOf(one.scope) === tenantOf(target.scope) &&
          one.domain === target.domain &&
          one.product === target.product &&
          one.variant.startsWith('masked')
        const twins = mode === 'apply' && target.variant === 'clear' ? known.filter(isTwin) : []
        for (const twin of twins) await store.drop(twin, 'apply')
        return store.drop(target, mode)
      },
    }
  }),
  saboteur('finds a new column that may not be null well', [161], (store) => ({
    async validate(target, previous) {
      const verdicts = (await store.validate?.(target, previous)) ?? []
      return verdicts.map((one, index) =>
        previous !== null && index >= previous.columns.length
          ? { ...one, verdict: 'optional', reason: 'it is new' }
          : one,
      )
    },
  })),
  saboteur('says that more is found whenever the page of an operation is full', [163], (store) => ({
    async *operate(target, plan) {
      const { primaryKey } = target.schema
      const columns = [...plan.columns, 'matches', ...primaryKey]
      const policy = { ...plan.policy, visibleColumns: [...plan.policy.visibleColumns, ...primaryKey] }
      for await (const batch of store.operate?.(target, { ...plan, columns, policy }) ?? []) {
        const rows = 'json' in batch ? [] : [...rowsOf(batch)]
        const width = plan.columns.length
        const last = rows.at(-1)
        const next = last && [last[width] ?? 0, keyText(last.slice(width + 1))]
        const given = batchFromRows(
          rows.map((row) => row.slice(0, width)),
          width,
        )
        yield { ...batch, ...given, ...(next && rows.length === plan.limit ? { next } : {}) }
      }
    },
  })),
  saboteur('searches the twin by the index of the clear copy', [164], (store, memory) => ({
    async *operate(target, plan) {
      const clear = { ...target, variant: 'clear' }
      const twin = new Map(currentOf(memory.get(target)).map(({ key, row }) => [key, row]))
      if (target.variant === 'clear' || currentOf(memory.get(clear)).length === 0 || twin.size === 0) {
        return yield* store.operate?.(target, plan) ?? []
      }
      const { primaryKey } = target.schema
      const policy = { ...plan.policy, visibleColumns: [...plan.policy.visibleColumns, ...primaryKey] }
      for await (const batch of store.operate?.(clear, { ...plan, columns: [...primaryKey, 'matches'], policy }) ??
        []) {
        const found = 'json' in batch ? [] : [...rowsOf(batch)]
        const rows = found.flatMap((cells) => {
          const row = twin.get(keyText(cells.slice(0, -1)))
          const cell = (name: string) => (name === 'matches' ? cells.at(-1) : cellOf(target.schema, name, row ?? []))
          return row === undefined ? [] : [plan.columns.map((name) => cell(name) ?? null)]
        })
        yield { ...batch, ...batchFromRows(rows, plan.columns.length) }
      }
    },
  })),
  sabotagedPlugin('counts the life of rows from when it wrote them', [93, 119, 145], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        write(target, changes, commit) {
          const writtenAt = new Date(host.clock.nowMs()).toISOString().replace('Z', '000Z')
          const isExpiring = target.config.ttl !== undefined
          return store.write(target, changes, isExpiring ? { ...commit, committedAt: writtenAt } : commit)
        },
      }
    },
  })),
]

function currentOf(stored: StoredDataset | undefined): readonly RowVersion[] {
  return (stored?.contents.at(-1)?.versions ?? []).filter(({ validTo }) => validTo === null)
}

function digested(value: Value): string {
  if (value === null) return '\\N'
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : Object.is(value, -0) ? '-0' : String(value)
}
