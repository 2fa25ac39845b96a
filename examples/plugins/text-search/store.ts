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
import type { Database } from 'sluice-lookup-sqlite/database'
import { datasetOf, datasetsOfTenant, findDataset } from 'sluice-lookup-sqlite/datasets'
import { writeStaged } from 'sluice-lookup-sqlite/staging'
import type { Config } from './config.ts'
import { digestOf } from './digest.ts'
import { applyProvision, dropDataset, provisionSteps } from './provisioning.ts'
import { readPage } from './reading.ts'
import { searchPage } from './searching.ts'
import { rowsOfSearch } from './writing.ts'

const WALL = 'each dataset has tables and text indexes of its own, found under its tenant alone'

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
      await host.faultPoint('search.after-provision')
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
      const writing = writeStaged(database, host, target, changes, commit, rowsOfSearch)
      running.add(writing)
      try {
        return await writing
      } finally {
        running.delete(writing)
      }
    },

    async *read(target, plan) {
      yield readPage(database, host.clock, target, plan)
    },

    async *operate(target, plan) {
      yield searchPage(database, host.clock, target, plan)
    },

    async recover(target) {
      return datasetOf(database, target).applied
    },

    async digest(target, signal) {
      return digestOf(database, target, signal)
    },

    async drop(target, mode) {
      const dataset = findDataset(database, target)
      const description = 'drop the table of the dataset and its text indexes'
      const steps: PlanStep[] = dataset ? [{ action: 'drop', description }] : []
      if (mode === 'apply' && dataset) database.transaction('IMMEDIATE', () => dropDataset(database, dataset))
      return planOfSteps(steps)
    },

    async dropTenant(scope) {
      database.transaction('IMMEDIATE', () => {
        for (const dataset of datasetsOfTenant<Config>(database, tenantOf(scope))) dropDataset(database, dataset)
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
