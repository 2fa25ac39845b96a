/**
 * Loaded first by a runtime whose engine is to be watched: writes a line for each job that a child begins. Files that an author's
 * text is given are linked beside it, since those of a scratch folder are gone when anybody counts their rows.
 */
import { appendFileSync, linkSync } from 'node:fs'
import { join } from 'node:path'
import { type EngineTable, filesOf } from '../../engine/src/job.ts'
import { JobRun } from '../../engine/src/job-run.ts'
import type { ToChild } from '../../engine/src/protocol.ts'

export interface JobLine {
  readonly trust: 'own' | 'tenant'
  /** All that it was told to read. */
  readonly files: readonly string[]
  /** Folders that it may write to. */
  readonly dirs: readonly string[]
  /** Of an author's text whose rows are kept: the files with the rows that it is given. Of large products alone. */
  readonly given: readonly string[]
}

/** The folder for both. */
export const FOLDER = 'PROVED_ENGINE_JOBS'

/** Paths of the lake have a folder for each product, and so have workspaces: `run-<run>-<product>-<epoch>`. */
export function productIn(path: string): string | null {
  return (
    /\/made\/((?:p|large)\d+)(?:\/|__|$)/.exec(path)?.[1] ?? /-((?:p|large)\d+)-\d+(?:\/|$)/.exec(path)?.[1] ?? null
  )
}

let links = 0

const folder = process.env[FOLDER]
if (folder !== undefined) {
  const start = JobRun.prototype.start
  JobRun.prototype.start = function (message, room, deadline, caller) {
    const line = lineOf(message, folder)
    if (line !== null) appendFileSync(join(folder, 'jobs.ndjson'), `${JSON.stringify(line)}\n`)
    return start.call(this, message, room, deadline, caller)
  }
}

function lineOf(message: ToChild, into: string): JobLine | null {
  if (message.kind !== 'job') return null
  const { trust, tables = [], output, writeDirs = [], readPaths = [] } = message.job
  const dir = output?.kind === 'parquet-files' ? output.dir : null
  const isCounted = trust === 'tenant' && dir !== null && productIn(dir)?.startsWith('large') === true
  const given = isCounted ? tables.flatMap((table) => givenBy(table, into)) : []
  const dirs = [...writeDirs, ...(dir === null ? [] : [dir])]
  return { trust, files: [...tables.flatMap(filesOf), ...readPaths], dirs, given }
}

/** Where lists say which rows there are, those; or all of the files. */
function givenBy({ files, only, also }: EngineTable, into: string): readonly string[] {
  return [...(only ?? files), ...(also === undefined ? [] : (also.only ?? also.files))].map((file) => {
    links += 1
    const to = join(into, `${process.pid}-${links}.parquet`)
    linkSync(file, to)
    return to
  })
}
