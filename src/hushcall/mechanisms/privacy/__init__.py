"""What privacy costs: accounting of several reports, and what an anonymity set adds."""
