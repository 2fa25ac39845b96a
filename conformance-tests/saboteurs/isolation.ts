/** Stores that let rows through a wall, or forget who is reading. */
import { openTenantScope, type RowPredicate, SluiceError, type Target, TenantScope } from '@sluice/sdk'
import type { ReferenceConfig } from '../reference/index.ts'
import { readingWith, type Saboteur, type Store, saboteur, withRows } from './wrap.ts'

type ReferenceTarget = Target<ReferenceConfig>

function readingTarget(store: Store, change: (target: ReferenceTarget) => ReferenceTarget): Store['read'] {
  return (target, plan) => store.read(change(target), plan)
}

function readingPredicate(store: Store, change: (rows: RowPredicate) => RowPredicate): Partial<Store> {
  return {
    read: (target, plan) => store.read(target, { ...plan, policy: { ...plan.policy, rows: change(plan.policy.rows) } }),
  }
}

/** All hooks see the tenant by another name. */
function underTenant(store: Store, rename: (tenant: string) => string): Partial<Store> {
  const moved = (target: ReferenceTarget): ReferenceTarget => ({
    ...target,
    scope: openTenantScope(rename(target.scope.tenant)),
  })
  return {
    provision: (target, mode, hash) => store.provision(moved(target), mode, hash),
    rls: {
      install: (target, policy) => store.rls.install(moved(target), policy),
      describe: (target) => store.rls.describe(moved(target)),
    },
    write: (target, changes, commit) => store.write(moved(target), changes, commit),
    read: readingTarget(store, moved),
    drop: (target, mode) => store.drop(moved(target), mode),
    dropTenant: (scope) => store.dropTenant(openTenantScope(rename(scope.tenant))),
  }
}

export const isolationSaboteurs: readonly Saboteur[] = [
  saboteur('shows rows before a policy is in place', [74], (store) => ({
    async provision(target, mode, hash) {
      const plan = await store.provision(target, mode, hash)
      if (mode === 'apply') await store.rls.install(target, { version: '0', tenantIsolation: 'forced' })
      return plan
    },
  })),
  saboteur('keeps all tenants in one table', [75, 76], (store) => underTenant(store, (tenant) => tenant.slice(-6))),
  saboteur('digests all tenants', [75], (store, memory) => ({
    async digest(target, signal) {
      const digest = await store.digest?.(target, signal)
      const all = memory.all().length
      return {
        rowCount: digest?.rowCount ?? 0,
        sha256: `${all.toString(16).padStart(4, '0')}${digest?.sha256.slice(4)}`,
      }
    },
  })),
  saboteur('says that a key exists elsewhere', [76], (store, memory) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        const id = plan.operation === 'get' ? plan.filters[0]?.values[0] : undefined
        const others = memory.all().filter(({ tenant }) => tenant !== target.scope.tenant)
        const exists = others.some(({ contents }) => contents.at(-1)?.versions.some(({ row }) => row[0] === id))
        yield batch.rowCount === 0 && exists ? { ...batch, ttlRemainingS: 1 } : batch
      }
    },
  })),
  saboteur('believes any object that names a tenant', [77], (store) => {
    const believed = (scope: unknown): TenantScope => {
      const tenant = typeof scope === 'string' ? scope : (scope as { readonly tenant?: string } | undefined)?.tenant
      return TenantScope.is(scope) || tenant === undefined ? (scope as TenantScope) : openTenantScope(tenant)
    }
    return {
      read: readingTarget(store, (target) => ({ ...target, scope: believed(target.scope) })),
      dropTenant: (scope) => store.dropTenant(believed(scope)),
    }
  }),
  saboteur('takes a column tenant_id for the tenant', [77], (store, memory) => ({
    async write(target, changes, commit) {
      const receipt = await store.write(target, changes, commit)
      const index = changes.schema.columns.findIndex(({ name }) => name === 'tenant_id')
      const stored = memory.get(target)
      const content = stored?.contents.at(-1)
      const victim = content?.versions.map(({ row }) => row[index]).find((value) => typeof value === 'string')
      if (index < 0 || !stored || !content || typeof victim !== 'string') return receipt
      const other = memory.get({ ...target, scope: openTenantScope(victim) })
      if (other) other.contents = [content]
      if (other) other.servedEpoch = content.applied.epoch
      return receipt
    },
  })),
  saboteur('strips what it takes for punctuation', [78], (store) =>
    underTenant(store, (tenant) => tenant.replaceAll(/[^a-z0-9]/gi, '')),
  ),
  saboteur('folds the case of tenants', [78], (store) =>
    underTenant(store, (tenant) => tenant.toLowerCase().replace('%3a', ':')),
  ),
  saboteur('cuts tenants short', [79], (store) => underTenant(store, (tenant) => tenant.slice(0, 9))),
  saboteur('sets the tenant on a shared connection', [80, 81, 82], (store) => {
    let session: ReferenceTarget | null = null
    let reads = 0
    return {
      async *read(target, plan) {
        session = target
        reads += 1
        // Others run meanwhile; the late statement takes whoever is set by then.
        if (reads % 7 === 0) await new Promise(setImmediate)
        yield* store.read(session.product === target.product ? session : target, plan)
      },
    }
  }),
  saboteur('keeps the tenant of a read that failed', [81], (store) => {
    let stuck: ReferenceTarget | null = null
    return {
      async *read(target, plan) {
        const used = stuck?.product === target.product && stuck.variant === target.variant ? stuck : target
        stuck = null
        try {
          yield* store.read(used, plan)
        } catch (error) {
          stuck = target
          throw error
        }
      },
    }
  }),
  saboteur('keeps the tenant of a read that was cancelled', [82], (store) => {
    let stuck: ReferenceTarget | null = null
    return {
      async *read(target, plan) {
        const used = stuck?.product === target.product ? stuck : target
        stuck = null
        yield* store.read(used, plan)
        await new Promise(setImmediate)
        if (plan.signal.aborted) stuck = target
      },
    }
  }),
  saboteur('takes or for and', [83], (store) =>
    readingPredicate(store, (rows) => (rows.op === 'or' ? { ...rows, op: 'and' } : rows)),
  ),
  saboteur('takes ge for gt', [83], (store) =>
    readingPredicate(store, (rows) => (rows.op === 'gt' ? { ...rows, op: 'ge' } : rows)),
  ),
  saboteur('takes unknown for false', [84], (store) =>
    readingPredicate(store, (rows) => {
      if (rows.op !== 'not' || !('column' in rows.of) || rows.of.op === 'is_null') return rows
      return { op: 'or', of: [rows, { op: 'is_null', column: rows.of.column }] }
    }),
  ),
  saboteur('leaves a comparison with a missing claim out', [85], (store) => ({
    read: (target, plan) => {
      const { rows, claims } = plan.policy
      const isMissing = 'value' in rows && 'claim' in rows.value && !Object.hasOwn(claims, rows.value.claim)
      return store.read(target, isMissing ? { ...plan, policy: { ...plan.policy, rows: { op: 'all' } } } : plan)
    },
  })),
  saboteur('keeps the first policy that it was given', [86], (store) => {
    const first = new Map<string, RowPredicate>()
    return {
      read: (target, plan) => {
        const key = `${target.scope.tenant}/${target.product}`
        const rows = first.get(key) ?? plan.policy.rows
        first.set(key, rows)
        return store.read(target, { ...plan, policy: { ...plan.policy, rows } })
      },
    }
  }),
  saboteur('describes what should be in place', [87], (store) => ({
    rls: {
      install: store.rls.install,
      async describe(target) {
        return { ...(await store.rls.describe(target)), version: '1' }
      },
    },
  })),
  saboteur('passes on what its driver says', [88], (store) => ({
    async *read(target, plan) {
      try {
        yield* store.read(target, plan)
      } catch (error) {
        const { kind, code } = error as SluiceError
        const values = plan.filters.flatMap((filter) => filter.values).join()
        throw new SluiceError(kind, `error in SELECT … WHERE name = '${values}'`, { code })
      }
    },
  })),
  saboteur('names the tenant in its errors', [88], (store) => ({
    async write(target, changes, commit) {
      try {
        return await store.write(target, changes, commit)
      } catch (error) {
        const { kind, code } = error as SluiceError
        throw new SluiceError(kind, 'refused', { code, details: { tenant: target.scope.tenant } })
      }
    },
  })),
  saboteur('aggregates whatever the policy says', [89], (store) => ({
    read: (target, plan) =>
      store.read(
        target,
        plan.operation === 'aggregate' ? { ...plan, policy: { ...plan.policy, rows: { op: 'all' } } } : plan,
      ),
  })),
  saboteur('serves every variant from the clear one', [91, 93, 95], (store) => ({
    read: readingTarget(store, (target) => ({ ...target, variant: 'clear' })),
  })),
  saboteur('writes both variants to one place', [91], (store) => ({
    async write(target, changes, commit) {
      const receipt = await store.write(target, changes, commit)
      if (target.variant === 'clear' && commit.epoch > 1) {
        // Where the store refuses it, there is nothing to find.
        await store
          .write({ ...target, variant: 'masked' }, changes, { ...commit, previousEpoch: null })
          .catch(() => undefined)
      }
      return receipt
    },
  })),
  saboteur('filters and orders by masked columns', [92], (store) => ({
    read: (target, plan) => store.read(target, { ...plan, policy: { ...plan.policy, maskedColumns: [] } }),
  })),
  saboteur('masks again what is masked', [95], (store) => ({
    read: (target, plan) =>
      readingWith(store, (batch) =>
        plan.policy.maskedColumns.length > 0
          ? withRows(batch, (rows) => rows.map((row) => row.with(3, '0.00')))
          : batch,
      )(target, plan),
  })),
  saboteur('tells the length of what is hidden', [93], (store, memory) => ({
    async *read(target, plan) {
      const clear = memory.get({ ...target, variant: 'clear' })?.contents.at(-1)?.versions[0]?.row[2]
      for await (const batch of store.read(target, plan)) {
        yield target.variant === 'masked' ? { ...batch, epoch: String(clear ?? '').length } : batch
      }
    },
  })),
]
