/** What is kept of a proof in docs/proofs: enough to judge it by, and to run it again as it was. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Figures, Outcome, Proof } from './proof.ts'

const ROOT = join(import.meta.dirname, '..')
const RECORDS = join(ROOT, 'docs/proofs')

export interface ProofRecord {
  readonly proof: string
  readonly proves: string
  readonly result: 'holds' | 'fails'
  readonly date: string
  readonly tookSeconds: number
  readonly seed: number
  readonly command: string
  readonly sources: Sources
  readonly machine: Figures
  readonly figures: Figures
}

export interface Sources {
  readonly of: readonly string[]
  readonly files: number
  readonly sha256: string
  /** The commit that was checked out; the files may have been edited since. */
  readonly commit: string
}

/** Of the files' paths and contents, so it is the same wherever the checkout lies. */
export function sourcesOf(globs: readonly string[], root = ROOT): Sources {
  const files = globSync([...globs], { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'], withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort()
  const hash = createHash('sha256')
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update('\0')
  return { of: globs, files: files.length, sha256: hash.digest('hex'), commit: commitOf(root) }
}

/** A packed or copied tree has no history, and can be proved all the same. */
function commitOf(root: string): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim()
  } catch {
    return 'unknown'
  }
}

export function machine(): Figures {
  return {
    processors: availableParallelism(),
    model: cpus()[0]?.model ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
  }
}

interface Run {
  readonly proof: Proof
  readonly args: readonly string[]
  readonly seed: number
  readonly startedAt: Date
  /** As they were when it began. */
  readonly sources: Sources
  readonly outcome: Outcome
}

export function recordOf({ proof, args, seed, startedAt, sources, outcome }: Run): ProofRecord {
  return {
    proof: proof.name,
    proves: proof.proves,
    result: outcome.holds ? 'holds' : 'fails',
    date: startedAt.toISOString(),
    tookSeconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    seed,
    command: ['npm run prove --', proof.name, '--seed', String(seed), ...args].join(' '),
    sources,
    machine: machine(),
    figures: outcome.figures,
  }
}

/** Gives the file's path from the root. */
export function keep(record: ProofRecord): string {
  mkdirSync(RECORDS, { recursive: true })
  const file = join(RECORDS, `${record.proof}.json`)
  writeFileSync(file, `${JSON.stringify(record, null, 2)}\n`)
  return file.slice(ROOT.length + 1)
}
