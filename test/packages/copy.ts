/** A copy of the repository, in which tests may do what changes it. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { copyRepository, filesOf } from '../../packaging/tarballs.ts'

const ROOT = join(import.meta.dirname, '../..')

/** All of it, by name: what a suite rests on is known by the names in its files. */
const ALL = [
  '.ci/**',
  '.github/**',
  'acceptance/**',
  'bench/**',
  'clients/**',
  'conformance-tests/**',
  'deploy/**',
  'docs/**',
  'engine/**',
  'examples/**',
  'iceberg/**',
  'packaging/**',
  'plugins/**',
  'prove/**',
  'runtime/**',
  'sdk/**',
  'stack/**',
  'test/**',
  '.dockerignore',
  '.env.example',
  '.gitignore',
  '.node-version',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CODE_OF_CONDUCT.md',
  'CONTRIBUTING.md',
  'Dockerfile',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'biome.json',
  'docker-compose.yml',
  'package-lock.json',
  'package.json',
  'tsconfig.json',
]

/** Files of the repository that the list does not name: a copy would lack them. */
export async function unnamedFiles(): Promise<readonly string[]> {
  const named = new Set(await filesOf(ROOT, ALL))
  return (await filesOf(ROOT)).filter((file) => !named.has(file))
}

/** Gives the folder. Throws where the repository has files that the list does not name. */
export async function copyOfRepository(target: string): Promise<string> {
  assert.deepEqual(await unnamedFiles(), [], 'test/packages/copy.ts names all folders and files of the root')
  return copyRepository(ROOT, await filesOf(ROOT, ALL), target)
}
