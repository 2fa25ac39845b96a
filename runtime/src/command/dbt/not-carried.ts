import type { DbtNode } from './artifacts.ts'

export interface NotCarried {
  readonly node: DbtNode
  readonly reason: string
}
