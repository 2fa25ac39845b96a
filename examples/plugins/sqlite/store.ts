import {
  checkPlanHash,
  type Health,
  type Host,
  type PlanStep,
  planOfSteps,
  policyMissing,
  type ServingStore,
  tenantOf,
} from '@sluice/sdk'
import type { Database } from './database.ts'
import { datasetOf, dropDataset, findDataset } from './datasets.ts'
import type { Config } from './index.ts'
import { applyProvision, provisionSteps } from './provisioning.ts'
import { digestOf, readPage } from './reading.ts'
import { writeChanges } from './writing.ts'

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
      const writing = writeChanges(database, host, target, changes, commit)
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

    digest: (target, signal) => digestOf(database, target, signal),

    async drop(target, mode) {
      const dataset = findDataset(database, target)
      const steps: PlanStep[] = dataset ? [{ action: 'drop', description: 'drop the table of the dataset' }] : []
      if (mode === 'apply' && dataset) database.transaction('IMMEDIATE', () => dropDataset(database, dataset))
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      const tenant = tenantOf(scope)
      database.transaction('IMMEDIATE', () => {
        for (const { id } of database.all('SELECT id FROM datasets WHERE tenant = ?', tenant)) {
          dropDataset(database, { id: id as bigint })
        }
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
