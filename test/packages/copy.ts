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

/** Gives the folder. Throws where the repository has files that the list does not name. */
export async function copyOfRepository(target: string): Promise<string> {
  const files = await filesOf(ROOT, ALL)
  const named = new Set(files)
  const others = (await filesOf(ROOT)).filter((file) => !named.has(file))
  assert.deepEqual(others, [], 'test/packages/copy.ts names all folders and files of the root')
  return copyRepository(ROOT, files, target)
}
