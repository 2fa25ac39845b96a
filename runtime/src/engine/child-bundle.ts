import { mkdir, rename, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** In the sources the child's entry is TypeScript, in the packed form JavaScript. */
const ENTRY = new URL(import.meta.url.endsWith('.ts') ? './child/main.ts' : './child/main.js', import.meta.url)

export const CHILD_ENTRY = fileURLToPath(ENTRY)

/** Of the file that `bundleChild` writes. */
export const BUNDLE_NAME = 'engine-child.mjs'

/**
 * Writes the child's program as one file into the folder, which is made when missing, and gives its path. Loading some
 * 240 modules one by one is a third of what a child's start costs, and every job starts one. Native parts stay where
 * they are installed. Repeatable; the file is complete when it appears. Throws where esbuild does not run.
 */
export function bundleChild(dir: string): Promise<string> {
  const requiring = createRequire(ENTRY).resolve('@duckdb/node-api')
  return bundleProgram(ENTRY, { dir, name: BUNDLE_NAME, requiring, external: ['@duckdb/node-bindings'] })
}

export interface BundleOptions {
  readonly dir: string
  /** Of the file in it. */
  readonly name: string
  /** The module from which the program's CommonJS parts are looked up. */
  readonly requiring: string
  readonly external?: readonly string[]
}

/** As `bundleChild`, of any program. Not to be called while another call is under way. */
export async function bundleProgram(
  entry: URL,
  { dir, name, requiring, external = [] }: BundleOptions,
): Promise<string> {
  const { build, stop } = await import('esbuild')
  const driver = JSON.stringify(requiring)
  try {
    const { outputFiles } = await build({
      entryPoints: [fileURLToPath(entry)],
      bundle: true,
      write: false,
      platform: 'node',
      format: 'esm',
      target: 'node22',
      external: [...external],
      // What is looked up is found as from the program itself, and the driver's native part as from the driver.
      define: { 'import.meta.url': JSON.stringify(entry.href) },
      banner: { js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(${driver})` },
      logLevel: 'silent',
    })
    await mkdir(dir, { recursive: true, mode: 0o700 })
    const file = join(dir, name)
    await writeFile(`${file}.draft`, outputFiles[0]?.contents ?? '')
    await rename(`${file}.draft`, file)
    return file
  } finally {
    await stop()
  }
}
