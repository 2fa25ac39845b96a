/** Which test files come by a mutated place: found by running each alone, as it is, when it is first asked for. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { SourceGraph } from '../../stack/selection/graph.ts'
import { runChild } from '../child.ts'
import type { Request } from '../proof.ts'
import { type Coverage, readCoverage } from './coverage.ts'
import { type Mutation, offsetOf } from './mutation.ts'
import type { WorkingCopy } from './working-copy.ts'

/** What `npm test` runs, without what asks a runtime over HTTP: those tests come by nearly everything. */
const TESTS = ['{sdk,packaging,examples,conformance-tests,plugins,deploy,runtime,test,stack,prove}/**/*.test.ts']
const APART = ['**/*.stack.test.ts', 'test/crash/**']
const MAX_FILE_MS = 180_000

interface Explored {
  readonly seconds: number
  readonly coverage: Coverage
}

export class Tests {
  readonly #copy: WorkingCopy
  readonly #request: Pick<Request, 'signal' | 'say'>
  /** For each test file all that it names, and that those name. */
  readonly #named = new Map<string, ReadonlySet<string>>()
  readonly #isChosen: boolean
  readonly #explored = new Map<string, Explored | null>()

  /** With globs the tests that match them, else those of `npm test`. */
  constructor(copy: WorkingCopy, globs: readonly string[], request: Pick<Request, 'signal' | 'say'>) {
    this.#copy = copy
    this.#request = request
    this.#isChosen = globs.length > 0
    const graph = new SourceGraph(copy.tree)
    const apart = new Set(copy.matching(this.#isChosen ? ['**/*.stack.test.ts'] : APART))
    for (const test of copy.matching(this.#isChosen ? globs : TESTS)) {
      if (!apart.has(test)) this.#named.set(test, new Set(graph.reachedFrom([test])))
    }
  }

  /** Those that name the source, however far, or were asked for; the nearest first, then those that name the least else. */
  candidates({ file }: Mutation): readonly string[] {
    const all = [...this.#named].filter(([, named]) => this.#isChosen || named.has(file))
    const width = (named: ReadonlySet<string>) => (named.has(file) ? named.size : Number.MAX_SAFE_INTEGER)
    return all
      .toSorted(
        ([one, ofOne], [two, ofTwo]) => nearness(two, file) - nearness(one, file) || width(ofOne) - width(ofTwo),
      )
      .map(([test]) => test)
  }

  /** How long the test takes where it comes by the place; null where it does not, or fails as it is. */
  async secondsBy(test: string, mutation: Mutation): Promise<number | null> {
    const explored = this.#explored.get(test) ?? (await this.#explore(test))
    if (explored === null) return null
    const { coverage, seconds } = explored
    const isNamed = this.#named.get(test)?.has(mutation.file) ?? false
    if (!coverage.hasLoaded(mutation.file)) return isNamed ? seconds : null
    const offset = offsetOf(await this.#copy.read(mutation.file), mutation)
    return coverage.hasRun(mutation.file, offset) ? seconds : null
  }

  /** A test that fails as it is would seem to catch everything. */
  async #explore(test: string): Promise<Explored | null> {
    if (this.#explored.has(test)) return null
    const folder = await mkdtemp(join(tmpdir(), 'sluice-coverage-'))
    try {
      const { signal, say } = this.#request
      const options = { cwd: this.#copy.root, env: { NODE_V8_COVERAGE: folder }, timeoutMs: MAX_FILE_MS, signal }
      const { code, seconds, tail } = await runChild(process.execPath, ['test/run.ts', test], options)
      if (code !== 0) say(`${test} fails as it is, and is left out:\n${tail}`)
      const explored = code === 0 ? { seconds, coverage: await readCoverage(folder, this.#copy.root) } : null
      this.#explored.set(test, explored)
      return explored
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}

export function isBeside(test: string, source: string): boolean {
  const stem = (path: string) => join(dirname(path), basename(path).split('.')[0] ?? '')
  return stem(test) === stem(source)
}

/** The test of the very source, then those of the same folder, then by how much of the path they share. */
function nearness(test: string, source: string): number {
  if (isBeside(test, source)) return Number.MAX_SAFE_INTEGER
  const [one, other] = [test.split('/').slice(0, -1), source.split('/').slice(0, -1)]
  const shared = one.findIndex((part, index) => part !== other[index])
  return shared < 0 ? one.length : shared
}
