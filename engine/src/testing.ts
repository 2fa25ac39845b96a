/**
 * What tests start the engine's children with: one file, compiled once, as a runtime does. Each child that loads the
 * modules one by one, and compiles them, takes three times the processor time.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bundleChild } from './child-bundle.ts'
import type { ChildProgram } from './engine-child.ts'

/** Names a folder in which `prepareTestEngine` has made the program, for a run of many test files. */
export const ENGINE_DIR_VARIABLE = 'SLUICE_TEST_ENGINE_DIR'

let program: Promise<Required<ChildProgram>> | undefined

/** To be spread into an engine's options; the same at every call, by a promise of the caller's own. Without the variable it is made for this process. */
export async function testEngineProgram(): Promise<Required<ChildProgram>> {
  program ??= givenOrMade()
  return program
}

async function givenOrMade(): Promise<Required<ChildProgram>> {
  const given = process.env[ENGINE_DIR_VARIABLE]
  if (given !== undefined) return prepareTestEngine(given)
  const dir = mkdtempSync(join(tmpdir(), 'sluice-engine-program-'))
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }))
  return prepareTestEngine(dir)
}

/** The folder is made when missing. */
export async function prepareTestEngine(dir: string): Promise<Required<ChildProgram>> {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  return { childBundle: await bundleChild(dir), codeCacheDir: dir }
}
