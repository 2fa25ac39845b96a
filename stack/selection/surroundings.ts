/** What this machine is, as far as a suite's result may hang on it. */
import { arch, platform, release } from 'node:os'
import { engineAnswers } from '../containers.ts'
import { machineVersion } from '../machine-version.ts'
import { loadServer, type Suite } from '../suites.ts'
import type { Surroundings } from './key.ts'

/** As this process finds it; each version is asked for once. */
export async function surroundings(environment: NodeJS.ProcessEnv): Promise<Surroundings> {
  const versions = new Map<string, Promise<string>>()
  const hasContainers = await engineAnswers()
  return {
    machine: { node: process.version, platform: platform(), arch: arch(), release: release(), hasContainers },
    environment,
    versionOf(kind, name) {
      const known = versions.get(`${kind} ${name}`) ?? askedVersion(kind, name)
      versions.set(`${kind} ${name}`, known)
      return known
    },
  }
}

async function askedVersion(kind: 'server' | 'program', name: string): Promise<string> {
  if (kind === 'program') return machineVersion(name)
  const server = await loadServer(name as Suite['servers'][number])
  return (await server.version?.()) ?? 'pinned'
}
