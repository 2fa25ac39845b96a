/** Small repositories for tests. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { SourceGraph } from './graph.ts'
import { treeOf } from './tree.ts'

export class MadeUpTree {
  readonly root = mkdtempSync(join(tmpdir(), 'sluice-selection-'))
  readonly #paths = new Set<string>()

  constructor(files: Readonly<Record<string, string>>) {
    for (const [path, text] of Object.entries(files)) this.write(path, text)
  }

  write(path: string, text: string): void {
    const place = join(this.root, path)
    mkdirSync(dirname(place), { recursive: true })
    writeFileSync(place, text)
    this.#paths.add(path)
  }

  /** Of the files as they are now. */
  graph(): SourceGraph {
    return new SourceGraph(treeOf(this.root, this.#paths))
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}
