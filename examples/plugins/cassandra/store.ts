import { type Host, type PlanStep, planOfSteps, policyMissing, type ServingStore, tenantOf } from '@sluice/sdk'
import type { Cluster } from './cluster.ts'
import { addressOf, BY_ADDRESS, datasetOf, dropDataset, findDataset } from './datasets.ts'
import type { Config } from './index.ts'
import { applyProvision, planProvision } from './provisioning.ts'
import { digestOf, readPage } from './reading.ts'
import { writeChanges } from './writing.ts'

const WALL = 'the tenant is the partition of the register, and rows are found through it alone'

export function openStore(cluster: Cluster, host: Host): ServingStore<Config> {
  const running = new Set<Promise<unknown>>()
  return {
    async provision(target, mode, expectedHash) {
      if (mode === 'plan') return planProvision(cluster, target)
      const plan = await applyProvision(cluster, host, target, expectedHash)
      await host.faultPoint('lookup.after-provision')
      return plan
    },

    rls: {
      async install(target, policy) {
        const { id } = await datasetOf(cluster, target)
        const values = [JSON.stringify(policy), ...addressOf(target), id]
        await cluster.conditionally(`UPDATE datasets SET policy = ? WHERE ${BY_ADDRESS} IF id = ?`, values)
      },
      async describe(target) {
        const { policy } = await datasetOf(cluster, target)
        if (policy === null) throw policyMissing()
        return { ...policy, enforcedBy: WALL }
      },
    },

    async write(target, changes, commit) {
      const writing = writeChanges(cluster, host, target, changes, commit)
      running.add(writing)
      try {
        return await writing
      } finally {
        running.delete(writing)
      }
    },

    async *read(target, plan) {
      yield await readPage(cluster, target, plan)
    },

    async recover(target) {
      return (await datasetOf(cluster, target)).applied
    },

    digest: (target, signal) => digestOf(cluster, target, signal),

    async drop(target, mode) {
      const dataset = await findDataset(cluster, target)
      const steps: PlanStep[] = dataset ? [{ action: 'drop', description: 'forget the dataset and its rows' }] : []
      if (mode === 'apply' && dataset) await dropDataset(cluster, addressOf(target), dataset.id)
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      const tenant = tenantOf(scope)
      const query = 'SELECT domain, product, variant, id FROM datasets WHERE tenant = ?'
      for (const { domain, product, variant, id } of await cluster.all(query, [tenant])) {
        await dropDataset(cluster, [tenant, String(domain), String(product), String(variant)], id)
      }
    },

    async probe() {
      const reached = await cluster.all('SELECT release_version FROM system.local', []).then(
        () => true,
        () => false,
      )
      const message = reached ? WALL : 'the cluster does not answer'
      return { ok: reached, checks: [{ name: reached ? 'tenant walls' : 'cluster', ok: reached, message }] }
    },

    health: () => (cluster.isReachable ? { status: 'ok' } : { status: 'down', message: 'the cluster does not answer' }),

    async close() {
      await Promise.allSettled(running)
      await cluster.close()
    },
  }
}
