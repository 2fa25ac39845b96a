import { hostileMariadb } from './hostile-mariadb.fixture.ts'
import { testHostileSource } from './hostile-source.ts'

testHostileSource(hostileMariadb)
