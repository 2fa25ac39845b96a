import { testServingStore } from '@sluice/conformance'
import { start } from './conformance.ts'
import plugin from './index.ts'

testServingStore({ plugin, start })
