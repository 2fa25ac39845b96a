/**
 * `node reference-run.ts FOLDER LEVEL SEED`: the suite of this checkout on the reference store that lies in the folder, until a
 * check finds it wrong. Prints one line of JSON, a `ReferenceRun`.
 */
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ServingPlugin } from '@sluice/sdk'
import { CheckFailure, type Level } from '../../conformance-tests/check.ts'
import { capabilitiesOf } from '../../conformance-tests/kill-rate.ts'
import { type CheckResult, runSuite, type SuiteOptions } from '../../conformance-tests/suite.ts'

export interface ReferenceRun {
  /** The first check that failed by a broken promise; null where none did. */
  readonly caughtBy: string | null
  /** What that check needs declared. */
  readonly capabilities: readonly string[]
  /** Checks that were ended by an error which is no broken promise. */
  readonly ended: readonly string[]
}

/** Thrown to end a run that has its answer. */
class Found extends Error {
  readonly result: CheckResult

  constructor(result: CheckResult) {
    super(result.name)
    this.result = result
  }
}

async function load<T>(folder: string, file: string): Promise<T> {
  return (await import(pathToFileURL(join(resolve(folder), file)).href)) as T
}

async function run(folder: string, level: Level, seed: number): Promise<ReferenceRun> {
  const { default: plugin } = await load<{ default: ServingPlugin }>(folder, 'index.ts')
  const { start } = await load<Pick<SuiteOptions, 'start'>>(folder, 'conformance.ts')
  const ended: string[] = []
  const nameOf = ({ id, name }: CheckResult) => `${id} ${name}`
  try {
    await runSuite({ plugin, start, level, seed }, (result) => {
      if (result.status !== 'failed') return
      if (result.error instanceof CheckFailure) throw new Found(result)
      ended.push(nameOf(result))
    })
  } catch (error) {
    if (!(error instanceof Found)) throw error
    return { caughtBy: nameOf(error.result), capabilities: capabilitiesOf(error.result.id), ended }
  }
  return { caughtBy: null, capabilities: [], ended }
}

const [folder = '', level = 'full', seed = '1'] = process.argv.slice(2)
console.log(JSON.stringify(await run(folder, level as Level, Number(seed))))
process.exit(0)
