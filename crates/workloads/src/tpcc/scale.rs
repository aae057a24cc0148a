/// Size of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, at least 1.
    pub warehouses: u32,
    /// Rows of ITEM, and of STOCK for each warehouse; at least 1000.
    pub items: u32,
    /// Customers, and orders at first, for each district; at least 30.
    pub customers: u32,
}

/// Districts of a warehouse.
pub(super) const DISTRICTS: u32 = 10;

impl Scale {
    /// The standard's sizes.
    pub const fn standard(warehouses: u32) -> Self {
        Self { warehouses, items: 100_000, customers: 3000 }
    }

    /// A hundredth of the rows, for tests: about 1.5 MB for each warehouse.
    pub const fn reduced(warehouses: u32) -> Self {
        Self { warehouses, items: 1000, customers: 30 }
    }

    /// The first order that has not been delivered when the data is loaded: the last three of ten.
    pub(super) const fn first_undelivered(self) -> u32 {
        self.customers / 10 * 7 + 1
    }

    /// Number of last names that certainly occur in each district.
    pub(super) const fn last_names(self) -> u32 {
        if self.customers < 1000 { self.customers } else { 1000 }
    }
}
