import { fileURLToPath } from 'node:url'
import { bundleProgram } from '@sluice/engine'

/** In the sources the child's entry is TypeScript, in the packed form JavaScript. */
const ENTRY = new URL(import.meta.url.endsWith('.ts') ? './child/main.ts' : './child/main.js', import.meta.url)

export const SOURCE_CHILD_ENTRY = fileURLToPath(ENTRY)

/**
 * Writes the program of the processes that read sources as one file into the folder, and gives its path; as `bundleChild`.
 * Connectors are not in it: they run as they lie, because their code may look at where it, or its driver, is.
 */
export function bundleSourceChild(dir: string): Promise<string> {
  return bundleProgram(ENTRY, { dir, name: 'source-child', requiring: SOURCE_CHILD_ENTRY, native: ['koffi'] })
}
