/** A suite's key: a hash of all that its result hangs on. */
import { createHash } from 'node:crypto'
import type { Suite } from '../suites.ts'
import { environmentOf, namesRead } from './environment.ts'
import type { SourceGraph } from './graph.ts'
import { restsOn } from './rests-on.ts'
import { digestOf, textOf } from './tree.ts'

export interface Machine {
  readonly node: string
  readonly platform: string
  readonly arch: string
  readonly release: string
  readonly hasContainers: boolean
}

export interface Surroundings {
  readonly machine: Machine
  readonly environment: NodeJS.ProcessEnv
  /** By the name of a server or program. */
  versionOf(kind: 'server' | 'program', name: string): Promise<string>
}

/** How many processors there are is no part of it, nor what the suite is expected to take. */
export async function keyOf(suite: Suite, graph: SourceGraph, around: Surroundings): Promise<string> {
  const { expectedSeconds: _, ...definition } = suite
  const files = restsOn(suite, graph)
  const names = files.flatMap((path) => (/\.(?:[cm]?[jt]s|py)$/.test(path) ? namesRead(textOf(graph.tree, path)) : []))
  const parts = {
    definition,
    files: files.map((path) => [path, digestOf(graph.tree, path)]),
    machine: around.machine,
    versions: await versionsOf(suite, around),
    environment: environmentOf(names, around.environment, graph.tree.root),
  }
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

async function versionsOf(suite: Suite, around: Surroundings): Promise<readonly (readonly [string, string])[]> {
  const servers = [...suite.servers, ...(suite.startedByTests ?? [])]
  const asked = [
    ...servers.map((name) => ['server', name] as const),
    ...(suite.programs ?? []).map((name) => ['program', name] as const),
  ]
  return Promise.all(
    asked.map(async ([kind, name]) => [`${kind} ${name}`, await around.versionOf(kind, name)] as const),
  )
}
