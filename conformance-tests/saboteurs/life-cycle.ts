/** Stores whose capability table, plans, drops or digests do not say what is so. */
import { createHash } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import { type Saboteur, sabotagedPlugin, saboteur } from './wrap.ts'

export const lifeCycleSaboteurs: readonly Saboteur[] = [
  sabotagedPlugin('leaves a timer running', [9], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      host.clock.every(1000, () => undefined)
      return plugin.open(settings, host)
    },
  })),
  saboteur('cannot be closed twice', [9], (store) => {
    let closed = false
    return {
      async close() {
        if (closed) throw new SluiceError('INTERNAL', 'already closed', { code: 'closed' })
        closed = true
        await store.close()
      },
    }
  }),
  sabotagedPlugin('does more than it declares', [12], (plugin) => {
    const { digest: _, ...capabilities } = plugin.capabilities
    return { ...plugin, capabilities }
  }),
  saboteur('answers operations that it does not know', [12], (store) => ({
    read: (target, plan) =>
      store.read(target, plan.operation === ('teleport' as never) ? { ...plan, operation: 'scan' } : plan),
  })),
  sabotagedPlugin('declares more than it does', [13], (plugin) => ({
    ...plugin,
    capabilities: { ...plugin.capabilities, query: true },
  })),
  saboteur('drops a tenant only once', [16], (store, memory) => {
    const dropped = new Set<string>()
    return {
      async dropTenant(scope) {
        if (dropped.has(scope.tenant))
          throw new SluiceError('INVALID_DATA', 'there is no such tenant', { code: 'unknown_tenant' })
        if (memory.all().some(({ tenant }) => tenant === scope.tenant)) dropped.add(scope.tenant)
        return store.dropTenant(scope)
      },
    }
  }),
  saboteur('keeps the rows of a dropped tenant', [16, 33], () => ({ async dropTenant() {} })),
  saboteur('empties what is provisioned again', [17], (store, memory) => ({
    async provision(target, mode, hash) {
      const stored = memory.get(target)
      if (stored && mode === 'apply')
        memory.set(target, { ...stored, contents: stored.contents.map((content) => ({ ...content, versions: [] })) })
      return store.provision(target, mode, hash)
    },
  })),
  saboteur('always plans the same', [18], (store) => ({
    async provision(target, mode, hash) {
      const plan = await store.provision(target, mode, hash)
      return { ...plan, steps: [{ action: 'create', description: 'make everything' }] }
    },
  })),
  saboteur('plans nothing', [18, 19, 20], (store) => ({
    async provision(target, mode, hash) {
      return { ...(await store.provision(target, mode, hash)), steps: [] }
    },
  })),
  saboteur('does what it should only plan', [19, 20], (store) => ({
    provision: (target, _, hash) => store.provision(target, 'apply', hash),
  })),
  saboteur('drops what it should only plan to drop', [19], (store) => ({
    drop: (target) => store.drop(target, 'apply'),
  })),
  saboteur('does not look at the plan’s hash', [20], (store) => ({
    provision: (target, mode) => store.provision(target, mode),
  })),
  saboteur('drops the variants of a product together', [32], (store) => ({
    async drop(target, mode) {
      if (mode === 'apply') await store.drop({ ...target, variant: 'masked' }, mode)
      return store.drop(target, mode)
    },
  })),
  saboteur('drops a product in every domain', [32], (store, memory) => ({
    async drop(target, mode) {
      if (mode === 'apply') memory.delete({ ...target, domain: `${target.domain}2` })
      return store.drop(target, mode)
    },
  })),
  saboteur('drops every tenant', [33, 78, 79], (store, memory) => ({
    async dropTenant() {
      for (const { tenant } of memory.all()) memory.deleteTenant(tenant)
      void store
    },
  })),
  saboteur('digests rows in the order of their writing', [119], (store, memory) => ({
    async digest(target, signal) {
      const digest = await store.digest?.(target, signal)
      const rows = memory
        .get(target)
        ?.contents.at(-1)
        ?.versions.map(({ row }) => row.join())
      return { rowCount: digest?.rowCount ?? 0, sha256: createHash('sha256').update(String(rows)).digest('hex') }
    },
  })),
  saboteur('digests the number of rows', [119, 120], (store) => ({
    async digest(target, signal) {
      const rowCount = (await store.digest?.(target, signal))?.rowCount ?? 0
      return { rowCount, sha256: createHash('sha256').update(String(rowCount)).digest('hex') }
    },
  })),
  saboteur('digests no bytes', [120], (store, memory) => ({
    async digest(target, signal) {
      const digest = await store.digest?.(target, signal)
      const rows = memory
        .get(target)
        ?.contents.at(-1)
        ?.versions.map(({ row }) => row.map((cell) => (cell instanceof Uint8Array ? 'null' : String(cell))))
      return {
        rowCount: digest?.rowCount ?? 0,
        sha256: createHash('sha256').update(JSON.stringify(rows?.sort())).digest('hex'),
      }
    },
  })),
  saboteur('activates nothing', [121], () => ({ async activate() {} })),
]
