import {
  checkPlanHash,
  type Health,
  type Host,
  notMaterialized,
  type PlanStep,
  planOfSteps,
  policyMissing,
  type ServingStore,
  tenantOf,
} from '@sluice/sdk'
import type { Database } from './database.ts'
import { datasetOf, datasetsOfTenant, findDataset, forgetDataset } from './datasets.ts'
import { digestOfRows } from './digest.ts'
import type { Config } from './index.ts'
import { applyProvision, provisionSteps } from './provisioning.ts'
import { readPage } from './reading.ts'
import { checkAborted, writeStaged } from './staging.ts'
import { rowsOfLookup } from './writing.ts'

const WALL = 'each dataset has a table of its own, found under its tenant alone'

export function openStore(database: Database, host: Host): ServingStore<Config> {
  const running = new Set<Promise<unknown>>()
  let health: Health = { status: 'ok' }
  return {
    async provision(target, mode, expectedHash) {
      if (mode === 'plan') return planOfSteps(provisionSteps(database, target))
      const plan = database.transaction('IMMEDIATE', () => {
        const steps = planOfSteps(provisionSteps(database, target))
        checkPlanHash(steps, expectedHash)
        if (steps.steps.length > 0) applyProvision(database, target)
        return steps
      })
      await host.faultPoint('lookup.after-provision')
      return plan
    },

    rls: {
      async install(target, policy) {
        const { id } = datasetOf(database, target)
        database.change('UPDATE datasets SET policy = ? WHERE id = ?', JSON.stringify(policy), id)
      },
      async describe(target) {
        const { policy } = datasetOf(database, target)
        if (policy === null) throw policyMissing()
        return { ...policy, enforcedBy: WALL }
      },
    },

    async write(target, changes, commit) {
      const writing = writeStaged(database, host, target, changes, commit, rowsOfLookup)
      running.add(writing)
      try {
        return await writing
      } finally {
        running.delete(writing)
      }
    },

    async *read(target, plan) {
      yield readPage(database, target, plan)
    },

    async recover(target) {
      return datasetOf(database, target).applied
    },

    async digest(target, signal) {
      checkAborted(signal)
      const dataset = datasetOf(database, target)
      if (dataset.applied === null) throw notMaterialized()
      return digestOfRows(database, dataset, signal)
    },

    async drop(target, mode) {
      const dataset = findDataset(database, target)
      const steps: PlanStep[] = dataset ? [{ action: 'drop', description: 'drop the table of the dataset' }] : []
      if (mode === 'apply' && dataset) database.transaction('IMMEDIATE', () => forgetDataset(database, dataset))
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      database.transaction('IMMEDIATE', () => {
        for (const dataset of datasetsOfTenant(database, tenantOf(scope))) forgetDataset(database, dataset)
      })
    },

    async probe() {
      try {
        database.all('SELECT count(*) FROM datasets')
        health = { status: 'ok' }
        return { ok: true, checks: [{ name: 'tenant walls', ok: true, message: WALL }] }
      } catch {
        health = { status: 'down', message: 'the file cannot be read' }
        return { ok: false, checks: [{ name: 'file', ok: false, message: 'the file cannot be read' }] }
      }
    },

    health: () => health,

    async close() {
      await Promise.allSettled(running)
      database.close()
    },
  }
}
