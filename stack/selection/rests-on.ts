/** Which files a suite rests on: where none of them changes, it would give what it gave. */
import { ROOT } from '../../test/sources.ts'
import type { Suite } from '../suites.ts'
import { globbed } from './globbed.ts'
import { SourceGraph } from './graph.ts'
import { repositoryTree, type Tree } from './tree.ts'

export type TestedFiles = Pick<Suite, 'tests' | 'servers'>

/** What is installed, and how Node and esbuild take sources: every suite rests on these. */
const EVERYWHERE = ['package.json', 'package-lock.json', 'tsconfig.json', '.node-version']
const RUNNER = 'stack/run.ts'
/** Named by what runs all suites, but a matter of those alone that use them. */
const OF_SUITES = /^(?:stack\/suites\.ts|stack\/servers\/.*|docker-compose\.yml)$/

export function currentGraph(): SourceGraph {
  return new SourceGraph(repositoryTree(ROOT))
}

/** Paths from the root, sorted. One graph may be asked for many suites; it does not see later changes. */
export function restsOn(suite: TestedFiles, graph: SourceGraph = currentGraph()): readonly string[] {
  return [...new Set([...runnerFiles(graph), ...ownFiles(suite, graph)])].sort()
}

/** What its tests and servers reach. */
export function ownFiles(suite: TestedFiles, graph: SourceGraph): readonly string[] {
  const servers = suite.servers.map((name) => `stack/servers/${name}.ts`)
  return [...graph.reachedFrom([...matching(suite.tests, graph.tree), ...servers])].sort()
}

export function runnerFiles(graph: SourceGraph): readonly string[] {
  const common = EVERYWHERE.filter((path) => graph.tree.files.has(path))
  return [...new Set([...common, ...graph.reachedFrom([RUNNER], (path) => OF_SUITES.test(path))])].sort()
}

function matching(patterns: readonly string[], { files }: Tree): readonly string[] {
  return patterns.flatMap((pattern) => globbed(pattern, files))
}
