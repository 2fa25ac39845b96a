import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { bundleProgram } from './walls/program-bundle.ts'

/** In the sources the child's entry is TypeScript, in the packed form JavaScript. */
const ENTRY = new URL(import.meta.url.endsWith('.ts') ? './child/main.ts' : './child/main.js', import.meta.url)

export const CHILD_ENTRY = fileURLToPath(ENTRY)

/**
 * Writes the child's program as one file into the folder, which is made when missing, and gives its path. Loading some
 * 240 modules one by one is a third of what a child's start costs, and every job starts one. Native parts stay where
 * they are installed, and are loaded from there without looking for them again. Repeatable: what the folder has of the same
 * sources is taken as it is. Throws where esbuild does not run.
 */
export function bundleChild(dir: string): Promise<string> {
  const requiring = createRequire(ENTRY).resolve('@duckdb/node-api')
  return bundleProgram(ENTRY, { dir, name: 'engine-child', requiring, native: ['koffi', '@duckdb/node-bindings'] })
}
